"""Hosts that cannot join their fleet say so in a sentence and are gone, or go on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fleet_journey import nats_cluster
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import START_S
from tests.support.ports import free_port
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

MODELS = {"qwen": {"cmd": "serve ${PORT}"}}
SECRET = "shared-by-all-hosts"


def test_a_second_host_of_the_same_name_does_not_start(tmp_path: Path) -> None:
    """It names the other one's address and what to change, without a trace, and leaves nothing behind."""
    with nats_cluster(tmp_path, 1) as (nats,):
        config = {"models": MODELS, "fleet": {"nats": nats.url, "name": "gpu1", "secret": SECRET}}
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        with ForkedHotseat(config, tmp_path / "first") as first:
            second = ForkedHotseat(config, tmp_path / "second")
            code = second.process.wait(timeout=START_S)
            left = second.processes()

    assert (code, left) == (3, [])
    assert f'another host of the fleet is already named "gpu1" (at {first.url})' in second.log()
    assert "Traceback" not in second.log()


def test_a_host_starts_without_nats_and_says_that_it_is_apart(tmp_path: Path) -> None:
    """Whoever loses NATS and its host in one power failure gets the host back at least."""
    config = {"models": MODELS, "fleet": {"nats": f"nats://127.0.0.1:{free_port()}", "name": "gpu1", "secret": SECRET}}
    with ForkedHotseat(config, tmp_path) as hotseat:
        eventually(lambda: "disconnected from the fleet" in hotseat.log())

        assert hotseat.call("GET", "/v1/models").status == 200
