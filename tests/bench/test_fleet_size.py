"""A small fleet can be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.fleet.programs import PARTS
from bench.fleet.size import Observer, Window, rig, until_known

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.deep
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
