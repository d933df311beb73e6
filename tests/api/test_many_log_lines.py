"""Requests for many log lines: other requests go on meanwhile."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.support.loop_turns import LongestCallback
from tests.support.server_events import next_event

from hotseat.api.log_text import as_json
from hotseat.api.routes import fleet_logs, logs
from hotseat.api.routes.fleet_logs import MOST_LINES, FleetLog
from hotseat.api.routes.logs import ModelOutput
from hotseat.api.slices import SLICE, SLICE_S, slices
from hotseat.identifiers import HostName, LogLine, ModelName
from hotseat.model_servers.output import KEPT, Output

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

    from tests.support.loop_turns import Turns
    from tests.support.management import Management
    from tests.support.served_fleet import Served

    from hotseat.errors import HostUnresponsive

T = TypeVar("T")

QWEN = ModelName("qwen")


class Talkative:
    """Hosts that have each sent more lines than were asked for."""

    def __init__(self, sent: int) -> None:
        self.sent, self.path = sent, ""

    def names(self) -> list[HostName]:
        return []

    async def read_all(
        self, hosts: Iterable[HostName], path: str, kept: Callable[[bytes], T]
    ) -> dict[HostName, T | HostUnresponsive]:
        self.path = path
        lines = [as_json(LogLine(n, f"line {n}", QWEN)) for n in range(self.sent)]
        return dict.fromkeys(hosts, kept("\n".join(lines).encode()))

    def follow(self, host: HostName, path: str) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


@pytest.mark.parametrize("turns", [(fleet_logs, "from_json")], indirect=True)
async def test_the_logs_of_many_hosts_are_merged(turns: Turns) -> None:
    """Only lines that are shown are decoded, some in each turn of the loop, so that other requests go on."""
    hosts = [HostName(f"gpu{n}") for n in range(32)]
    others = Talkative(sent=1000)
    found = await FleetLog(others, hosts, QWEN, None, HostName("me")).newest(900)

    assert len(found) == 900
    assert [line.at for line in found[:1] + found[-1:]] == [971, 999]
    assert "lines=900&" in others.path
    assert turns.calls <= 900 + len(hosts)
    assert turns.most_in_a_turn <= SLICE + len(hosts)


async def test_many_hosts_are_asked_for_fewer_lines() -> None:
    """What is kept in memory meanwhile does not grow with the fleet."""
    hosts, others = [HostName(f"gpu{n}") for n in range(99)], Talkative(sent=3)
    found = await FleetLog(others, hosts, QWEN, None, HostName("me")).newest(10_000)

    assert len(found) == 3 * 99
    assert f"lines={MOST_LINES // 100}&" in others.path


@pytest.mark.parametrize("turns", [(logs, "as_json")], indirect=True)
@pytest.mark.parametrize("path", ["/hotseat/fleet/logs?model=qwen&json=true", "/hotseat/logs?model=qwen&json=true"])
async def test_many_lines_are_sent(hosts: Served, turns: Turns, path: str) -> None:
    """They are encoded in slices, so that other requests go on."""
    for n in range(10 * SLICE):
        hosts.parts["a"].logs.write("qwen", f"line {n}")
    answer = await hosts.ask("a", "GET", f"{path}&lines=10000")

    assert len(answer.text.splitlines()) == turns.calls == 10 * SLICE
    assert turns.most_in_a_turn <= SLICE


@pytest.mark.parametrize("turns", [(logs, "as_json")], indirect=True)
async def test_many_old_lines_of_a_followed_log(hosts: Served, turns: Turns) -> None:
    """They are encoded in slices too."""
    for n in range(10 * SLICE):
        hosts.parts["a"].logs.write("qwen", f"line {n}")
    async with hosts.parts["a"].feed("/hotseat/logs?model=qwen&lines=10000&follow=true") as feed:
        found = [json.loads((await next_event(feed))["data"])["text"] for _ in range(10 * SLICE)]

    assert found == [f"line {n}" for n in range(10 * SLICE)]
    assert turns.most_in_a_turn <= SLICE


def coloured() -> bytes:
    """The longest line that is kept, which takes long to clean."""
    return b"\x1b[32mx\x1b[0m" * (KEPT // 10)


@pytest.mark.parametrize("form", ["lines=1000", "lines=1000&json=true", "lines=1000&follow=true", None])
async def test_long_lines_of_many_models(rig: Management, form: str | None) -> None:
    """They block nobody: no callback takes 100 ms of a processor."""
    for n in range(40):
        output = Output(wall_clock=partial(float, n))
        output.feed(coloured() + b"\n")
        rig.logs._of_models[f"m{n}"] = ModelOutput(ModelName(f"m{n}"), output)  # type: ignore[assignment]
    tries: list[LongestCallback] = []
    while len(tries) < 3:  # the first use of a route takes longer
        with LongestCallback() as longest:
            if form is None or "follow" in form:
                async with rig.feed(f"/hotseat/logs?{form}" if form else "/api/events") as feed:
                    for _ in range(40):
                        await next_event(feed)
            else:
                assert len((await rig.get(f"/hotseat/logs?{form}")).text.splitlines()) == 40
        tries.append(longest)

    best = min(tries, key=lambda each: each.seconds)
    assert best.seconds < 0.1, best.what


async def test_the_slices_of_what_takes_long() -> None:
    """A slice ends after some milliseconds, however few items it has then."""

    def slow() -> Iterator[int]:
        for n in range(5):
            until = time.perf_counter() + SLICE_S
            while time.perf_counter() < until:
                pass
            yield n

    assert [some async for some in slices(slow())] == [[0], [1], [2], [3], [4]]
