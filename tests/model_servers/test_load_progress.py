"""How far a loading server has come, as the kernel tells it."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.processes import command_line
from tests.support.supervisor_rig import model
from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers import load_progress
from hotseat.model_servers.load_progress import LoadProgress, taken_in, weight_of
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import SupervisorRig

MIB = 1 << 20
SIZE = 256 * MIB
READER = "import sys; data = open(sys.argv[1], 'rb').read(); print(flush=True); sys.stdin.read()"


def sparse(path: Path, size: int = SIZE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """What each look at a loading server has found."""
    found, look = list[float | None](), LoadProgress._share

    def noted(progress: LoadProgress, pid: int) -> float | None:
        found.append(look(progress, pid))
        return found[-1]

    monkeypatch.setattr(LoadProgress, "_share", noted)
    return found


def test_the_files_of_a_command_are_weighed(tmp_path: Path) -> None:
    """Files, all parts of a model, a folder of safetensors, and values behind an equals sign; each once."""
    whole = sparse(tmp_path / "m.gguf", 3 * MIB)
    first, _ = (sparse(tmp_path / f"p-0000{n}-of-00002.gguf", 5 * MIB) for n in (1, 2))
    sparse(tmp_path / "hf/model.safetensors", 7 * MIB), sparse(tmp_path / "hf/config.json", 2 * MIB)
    template = sparse(tmp_path / "chat.jinja", 4096)
    argv = ("server", "-m", str(whole), f"--draft={whole}", str(first), str(tmp_path / "hf"), str(template), "a" * 5000)

    assert weight_of(argv) == 3 * MIB + 2 * 5 * MIB + 7 * MIB
    assert weight_of(("server", "--port", "8080")) == 0


def test_the_files_of_a_container_are_where_they_are_mounted_from(tmp_path: Path) -> None:
    """Its server gets the time that files of their size need, and they can be read ahead."""
    sparse(tmp_path / "m.gguf", 3 * MIB)
    argv = ("docker", "run", "--rm", "-v", f"{tmp_path}:/models:ro", "llama.cpp:server", "-m", "/models/m.gguf")

    assert weight_of(argv) == 3 * MIB


@pytest.mark.parametrize("wrapper", [(), ("sh", "-c", '"$@"; :', "sh")])
def test_what_is_read_counts(tmp_path: Path, wrapper: tuple[str, ...]) -> None:
    """Also where a shell stands between."""
    file = sparse(tmp_path / "m.gguf")
    argv = [*wrapper, sys.executable, "-c", READER, str(file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout
        reader.stdout.readline()
        taken, said = taken_in(reader.pid), command_line(reader.pid)

    assert taken >= SIZE, said


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    """It may end between two looks."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()

    assert taken_in(gone.pid) == 0


async def test_a_server_that_maps_its_weights_shows_how_far_it_is(rig: SupervisorRig, tmp_path: Path) -> None:
    """Half of the file is half of the way; a model that does not run is nowhere."""
    start = rig.next_start(model("maps_half", str(sparse(tmp_path / "m.gguf"))))
    name = ModelName("qwen")
    before = rig.supervisor.share_taken_in(name)
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await rig.said("took in ")
    share = await come_true(lambda: (found := rig.supervisor.share_taken_in(name) or 0) >= 0.5 and found)
    await rig.stop(start)
    await starting

    assert before is None
    assert 0.5 <= share < 0.75
    assert rig.supervisor.share_taken_in(name) is None


async def test_a_server_waits_for_its_disk_so_that_nobody_can_look_at_it(
    rig: SupervisorRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel answers no question about it: a thread waits, and the event loop does not."""
    responds, waiting = threading.Event(), list[str]()

    def wait(pid: int, name: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        waiting.append(name)
        responds.wait()
        return ""

    monkeypatch.setattr(load_progress, "process_text", wait)
    start = rig.next_start(model("maps_half", str(sparse(tmp_path / "m.gguf"))))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await come_true(lambda: waiting)
    share = rig.supervisor.share_taken_in(ModelName("qwen"))
    await rig.stop(start)
    await starting
    responds.set()

    assert share is None


async def test_a_program_that_does_not_touch_the_files_makes_no_progress(
    rig: SupervisorRig, tmp_path: Path, looks: list[float | None]
) -> None:
    """It has read its own libraries, which are half as large as this model."""
    file = sparse(tmp_path / "m.gguf", 4 * MIB)
    start = rig.next_start(model("", argv=("sh", "-c", "echo running; sleep 1000", str(file), "${PORT}")))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await rig.said("running")
    before = len(looks)
    await come_true(lambda: len(looks) > before + 1)
    share = rig.supervisor.share_taken_in(ModelName("qwen"))
    await rig.stop(start)
    await starting

    assert share is None


async def test_what_the_client_of_a_container_reads_is_no_progress(
    rig: SupervisorRig, tmp_path: Path, looks: list[float | None]
) -> None:
    """The server reads the files somewhere else."""
    client = tmp_path / "docker"
    client.write_text(f"#!/bin/sh\ncat {sparse(tmp_path / 'm.gguf')} > /dev/null\necho running\nsleep 1000 & wait\n")
    client.chmod(0o755)
    argv = (str(client), "run", "-v", f"{tmp_path}:/models", "-p", "${PORT}:80", "image", "-m", "/models/m.gguf")
    start = rig.next_start(model("", argv=argv))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await rig.said("running")
    before = len(looks)
    await come_true(lambda: len(looks) > before + 1)
    share = rig.supervisor.share_taken_in(ModelName("qwen"))
    await rig.stop(start)
    await starting

    assert share is None
