"""Endless work in the background goes on after an unexpected error."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from tests.support import failing_loops, streaming_server
from tests.support.changed_program import changed_program
from tests.support.fleet_journey import nats_cluster
from tests.support.hotseat import Hotseat
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waiting import eventually
from tests.test_tasks import loops_of_the_helper

if TYPE_CHECKING:
    from pathlib import Path


def test_every_loop_fails_once_and_goes_on(tmp_path: Path) -> None:
    """Those of a host of a fleet that traces, watches its file and has a feed, and the one of a replaced process."""
    enough, program = tmp_path / "enough", changed_program(tmp_path, failing_loops)
    models = {"qwen": {"cmd": f"{sys.executable} {streaming_server.__file__} ${{PORT}} {enough}"}}
    with nats_cluster(tmp_path / "nats", 1) as servers, OtlpReceiver() as collector:
        fleet = {"nats": [servers[0].url], "name": "one", "secret": "hush"}
        config = {"models": models, "fleet": fleet, "shutdown": {"notice": "0s"}}
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        options = ("--watch-config",)
        with (
            Hotseat(config, tmp_path, program=program, environ=environ, options=options) as hotseat,
            socket.create_connection(("127.0.0.1", hotseat.port)) as feed,
        ):
            feed.sendall(b"GET /models/sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
            stream = hotseat.stream("qwen", max_tokens=40).until_it_speaks()
            restarted = hotseat.cli("restart")
            places = loops_of_the_helper()
            went_on = eventually(lambda: seen if (seen := those_that_went_on(hotseat)) >= places else None)
            eventually(lambda: hotseat.call("GET", "/hotseat/ready").json().get("fleet") == "connected")
            enough.touch()

            assert stream.read().done
            assert restarted.returncode == 0, restarted.stderr
            assert went_on == places


def those_that_went_on(hotseat: Hotseat) -> set[str]:
    lines = hotseat.log().splitlines()
    return {line.removeprefix(failing_loops.WENT_ON).strip() for line in lines if failing_loops.WENT_ON in line}
