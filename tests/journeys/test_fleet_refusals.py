"""Hosts that cannot join their fleet say so in a sentence and are gone, or go on without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.fleet_journey import nats_cluster, record_of
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
    with nats_cluster(tmp_path, 1) as (server,):
        config = {"models": MODELS, "fleet": {"nats": server.url, "name": "gpu1", "secret": SECRET}}
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        with ForkedHotseat(config, tmp_path / "first") as first:
            second = ForkedHotseat(config, tmp_path / "second")
            code = second.process.wait(timeout=START_S)
            left = second.processes()

    assert (code, left) == (3, [])
    assert f'another host of the fleet is already named "gpu1" (at {first.url})' in second.log()
    assert "Traceback" not in second.log()


def test_a_copied_configuration_does_not_start(tmp_path: Path) -> None:
    """A host with the name and the address of a running one is refused, and the running one stays in the fleet."""
    with nats_cluster(tmp_path, 1) as (server,):
        port = free_port()
        fleet = {"nats": server.url, "name": "gpu1", "secret": SECRET, "address": f"http://127.0.0.1:{port}"}
        for name in ("original", "copy"):
            (tmp_path / name).mkdir()
        with ForkedHotseat({"models": MODELS, "fleet": fleet}, tmp_path / "original", port=port) as original:
            copy = ForkedHotseat({"models": MODELS, "fleet": fleet}, tmp_path / "copy")
            code = copy.process.wait(timeout=START_S)
            status = original.call("GET", "/hotseat/fleet").json()

    assert code == 3
    assert 'already named "gpu1" and has the same address' in copy.log()
    assert (status["connection"], status["problem"]) == ("connected", "")


def test_a_killed_host_shows_that_it_is_the_same_machine(tmp_path: Path) -> None:
    """Started again with the same state directory, it publishes the same hash of its token, never the token."""
    with nats_cluster(tmp_path, 1) as (server,):
        port = free_port()
        fleet = {"nats": server.url, "name": "gpu1", "secret": SECRET, "address": f"http://127.0.0.1:{port}"}
        config = {"models": MODELS, "fleet": fleet}
        with ForkedHotseat(config, tmp_path, port=port) as killed:
            before = record_of("gpu1", server)
            killed.process.kill()
            killed.process.wait(timeout=START_S)
        with ForkedHotseat(config, tmp_path, port=port):
            after = record_of("gpu1", server)
    token = json.loads((tmp_path / "state" / "hotseat" / "fleet.json").read_text())["token"]

    assert before["boot"] != after["boot"]
    assert before["token_hash"] == after["token_hash"]
    assert token not in json.dumps(after)


def test_a_host_starts_without_nats_and_says_that_it_is_apart(tmp_path: Path) -> None:
    """Whoever loses NATS and its host in one power failure gets the host back at least."""
    config = {"models": MODELS, "fleet": {"nats": f"nats://127.0.0.1:{free_port()}", "name": "gpu1", "secret": SECRET}}
    with ForkedHotseat(config, tmp_path) as hotseat:
        eventually(lambda: "disconnected from the fleet" in hotseat.log())

        assert hotseat.call("GET", "/v1/models").status == 200
