"""`hotseat record` against a running server."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.client import PATIENCE_S
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.hotseat import PROGRAM
from tests.support.virtual_time import skip
from tests.support.waiting import come_true

from hotseat.cli.record import Watched
from hotseat.identifiers import ClientId, ModelName
from hotseat.simulation.trace import Closed, parse
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_line import CommandLine, Typed

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Upstream

QWEN = ModelName("qwen")


class FakeWaiter:
    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: HotseatError) -> None: ...
    def cut(self, error: HotseatError) -> None: ...


async def test_what_comes_by_becomes_a_trace(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two successive requests are a closed loop; the trace can be simulated at once."""
    file, tasks = tmp_path / "now.jsonl", Tasks()
    noted = noted_by(monkeypatch)
    recording = tasks.start(command_line.type("record", str(file), "--for", "1m"), "record")
    dispatcher = command_line.rig.dispatcher
    await come_true(lambda: dispatcher.traffic.is_watched)
    await dispatcher.operator.load(QWEN)
    for _ in range(2):
        dispatcher.leave(dispatcher.ask(QWEN, ClientId("10.0.0.7"), FakeWaiter()))
    await come_true(lambda: noted.count("request") == 2)
    skip(60.0)
    said = await recording
    trace = parse(file.read_text())

    assert said.out == f"{file}: 2 requests of 1 clients for 1 models; 1 clients waited for each response\n"
    assert said.err == "recording for 1m00s\n"
    [client] = trace.clients
    assert isinstance(client, Closed)
    assert [(step.model, len(client.steps)) for step in client.steps] == [("qwen", 2), ("qwen", 2)]
    assert (await asyncio.to_thread(command_line.typed, "simulate", str(file))).code == 0


def noted_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of what recordings have received so far."""
    kinds: list[str] = []
    note = Watched.note

    def noted(watched: Watched, item: dict[str, Any]) -> None:
        kind = item["t"]
        note(watched, item)
        kinds.append(kind)

    monkeypatch.setattr(Watched, "note", noted)
    return kinds


def test_ctrl_c_ends_the_recording_and_writes_it(tmp_path: Path) -> None:
    """Nothing recorded until then is lost, and nobody else could ever read the file."""
    with ForkedHotseat({"models": {"qwen": {"cmd": "sleep 60", "proxy": "http://127.0.0.1:1"}}}, tmp_path) as rig:
        words = [str(PROGRAM), "record", str(tmp_path / "t.jsonl"), "--url", rig.url]
        recorder = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, umask=0o022)
        assert recorder.stderr is not None
        begun, file = recorder.stderr.readline(), tmp_path / "t.jsonl"
        modes = [file.stat().st_mode]
        recorder.send_signal(signal.SIGINT)
        said, problems = recorder.communicate(timeout=PATIENCE_S)
        modes.append(file.stat().st_mode)

    assert list(map(stat.S_IMODE, modes)) == [0o600, 0o600]
    assert (begun, problems, recorder.returncode) == ("recording until Ctrl-C\n", "", 0)
    assert said.endswith("t.jsonl: 0 requests of 0 clients for 0 models; 0 clients waited for each response\n")


def test_a_file_that_cannot_be_written_fails_before_the_recording(typed: Typed, tmp_path: Path) -> None:
    """The error comes before the recording, not after an hour."""
    said = typed("record", str(tmp_path / "nowhere" / "t.jsonl"))

    assert said.code == 1
    assert said.err.endswith("t.jsonl cannot be written: No such file or directory\n")


def test_a_time_that_is_none_is_refused(typed: Typed, tmp_path: Path) -> None:
    """--for must be a duration."""
    said = typed("record", str(tmp_path / "t.jsonl"), "--for", "soon")

    assert said.code == 2
    assert "must be a duration" in said.err


def test_what_could_not_be_recorded_is_said(tmp_path: Path) -> None:
    """An incomplete trace says so."""
    watched = Watched()
    model = {
        "name": "qwen",
        "load_s": None,
        "slots": None,
        "memory": None,
        "ttl_s": None,
        "urgency": 1.0,
        "pinned": False,
    }
    watched.note({"t": "machine", "patience": 2, "max_queue": 9, "devices": {}, "groups": [], "models": [model]})
    watched.note({"t": "request", "client": "u", "model": "qwen", "arrived": 0.0, "granted": 1.0, "left": 2.0})
    watched.note({"t": "request", "client": "u", "model": "qwen", "arrived": 0.0, "granted": None, "left": 2.0})
    watched.note({"t": "missed", "count": 7})
    summary = watched.summary(tmp_path, watched.recording.trace()).splitlines()

    assert summary[1:] == [
        "load time estimated, because no load was observed: qwen",
        "skipped, because they ended before they were served: 1",
        "missed, because they arrived faster than they could be written: 7",
    ]


@pytest.mark.parametrize(("what", "of"), [("load", "loads"), ("stop", "stops")])
def test_measured_times_are_kept(what: str, of: str) -> None:
    """Every observed load and stop is in the trace."""
    watched = Watched()
    for seconds in (1.0, 2.0):
        watched.note({"t": what, "model": "qwen", "seconds": seconds})

    assert getattr(watched.recording, of) == {"qwen": [1.0, 2.0]}
