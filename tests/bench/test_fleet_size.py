"""The report on the size of a fleet shows what was measured, and a small fleet can be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.fleet_size.outages import Return, busiest
from bench.fleet_size.page import Outcome, count, page
from bench.fleet_size.probes import NONE, Traffic
from bench.fleet_size.receiver import PARTS
from bench.fleet_size.rig import rig, until_known
from bench.fleet_size.starts import ALONE, Start
from bench.fleet_size.steady import Count, FanOut, Observer, Sample, Window

if TYPE_CHECKING:
    from pathlib import Path


def window(hosts: int, host_s: float, nats_py_s: float) -> Window:
    """Ten seconds with one message of each host per second, in processes that did something before."""
    messages = 10 * hosts
    before = Sample(100.0, 7.0, 3.0, Traffic(50, 5, 5000, 500), 0, {part: Count(40, 1.0) for part in PARTS})
    after = Sample(
        110.0,
        7.0 + host_s,
        3.5,
        Traffic(50 + messages, 15, 5000 + 900 * messages, 1500),
        2000 * messages,
        {part: Count(40 + messages, 1.0 + nats_py_s) for part in PARTS},
    )
    return Window(hosts, before, after, resident_mb=100.0 + hosts / 100)


OUTCOME = Outcome(
    models=200,
    servers=3,
    rounds=2,
    seconds=10.0,
    windows=[window(1, 0.1, 0.01), window(101, 0.4, 0.11), window(1, 0.1, 0.02), window(101, 0.4, 0.32)],
    fan_out=FanOut(90, 3000.0, 0.03),
    starts=[Start(200, ALONE, 4.0, 4.0, 2.0), Start(200, 101, 5.0, 6.0, 2.5), Start(200, 101, 5.0, 6.0, 3.5)],
    returns=[Return(101, 4.25, Traffic(300, 9, 250_000, 900), 120_000)],
)


def test_the_page_has_the_figures() -> None:
    """The page shows rates per second, times beyond those of a host alone, and sums over all hosts."""
    text = page(OUTCOME)

    assert "| hosts | 1 | 101 |" in text
    assert "| messages received by a host, per second | 1 | 101 |" in text
    assert "| bytes received by a host, per second | 900 | 90.9 k |" in text
    assert "| processor time of a host, of one core | 1.0 % | 4.0 % |" in text
    assert "| … beyond that of a host alone | 0.0 MB | 1.0 MB |" in text
    assert "| bytes sent by NATS to hosts, per second | 900 | 9.18 M |" in text
    assert "| nats-py receives it | 600 (300 – 900) µs |" in text
    assert "| the whole host | 900 (900 – 900) µs |" in text
    assert "more listeners | 10.0 µs |" in text
    assert "| bytes between the servers, for each record | 2,000 |" in text
    assert "| 200 | no fleet | 2.0 s | 4.0 s |  |" in text
    assert "| 200 | 101 | 3.0 s | 5.0 s | 6.0 s |" in text
    assert "| bytes sent by NATS to all hosts until then | 25.2 M |" in text


def test_the_busiest_second_is_between_two_samples() -> None:
    """What came before the last second does not count, and the connection began with nothing."""
    samples = [(0.5, NONE), (1.0, Traffic(1, 0, 700, 0)), (1.5, Traffic(2, 0, 900, 0)), (2.5, Traffic(3, 0, 1000, 0))]

    assert busiest(samples) == 900


@pytest.mark.parametrize(("number", "text"), [(0.33, "0.33"), (999, "999"), (1234, "1.23 k"), (2.5e9, "2.5 G")])
def test_numbers_have_three_digits(number: float, text: str) -> None:
    """Thousands, millions and billions have a letter."""
    assert count(number) == text


def test_a_small_fleet_is_measured(tmp_path: Path) -> None:
    """A real host knows the injected ones, and all receivers get their records."""
    with rig(tmp_path, servers=1, models=20) as small, small.host() as host:
        until_known(host, 1)
        observer = Observer(small, host)
        measured = observer.window(hosts=4, seconds=6.0)
        names = {each["host"] for each in host.call("GET", "/hotseat/fleet").json()["hosts"]}

    assert names == {"first", "gpu-0000", "gpu-0001", "gpu-0002"}
    assert len(parts_with_records(measured)) == len(PARTS)
    assert measured.host_share > 0
    assert measured.traffic.messages_in > 0
    assert measured.traffic.bytes_in > 500 * measured.records_per_s * measured.seconds


def parts_with_records(measured: Window) -> list[str]:
    """The receivers that got records in this window."""
    return [part for part in PARTS if measured.after.parts[part].messages > measured.before.parts[part].messages]
