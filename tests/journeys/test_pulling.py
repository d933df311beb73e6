"""Models on demand: from a hub on this machine into a running hotseat, with the installed command."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.depth import by_depth
from tests.support.hotseat import PROGRAM, START_S, Hotseat
from tests.support.llama import SERVER, model_file, present
from tests.support.local_hub import BLOCK, Content, local_hub
from tests.support.model_folders import model_bytes, model_head
from tests.support.terminal import CTRL_C, Terminal
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.local_hub import LocalHub

MIB, GIB = 1 << 20, 1 << 30
ROW = 128


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with local_hub({}, token="hf_secret") as hub:
        yield hub


@pytest.fixture
def running(serve: Callable[..., Hotseat], tmp_path: Path) -> Hotseat:
    """hotseat with an empty folder for models."""
    command = f"{shlex.quote(str(present(SERVER)))} -m ${{MODEL_PATH}} --port ${{PORT}} -c 512 -t 1"
    return serve({}, modelsDir={"path": str(tmp_path / "weights"), "cmd": command})


@pytest.mark.llama
def test_a_pulled_model_answers_without_a_restart(running: Hotseat, hub: LocalHub, tmp_path: Path) -> None:
    """When the command ends, the running hotseat lists the model and can load it."""
    files = {"tiny-Q8_0.gguf": model_file("alpha").read_bytes(), "mmproj-F16.gguf": model_bytes("clip")}
    hub.repositories["test/tiny"] = {name: Content(data) for name, data in files.items()}
    pulled = running.cli("pull", "test/tiny", **hub.environment(tmp_path))
    listed = running.cli("list")
    answer = running.chat("tiny-Q8_0")

    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.splitlines()[-2:] == [
        "tiny-Q8_0 is ready to use: hotseat run tiny-Q8_0",
        "its projector is not used: add ${MMPROJ} to the cmd of modelsDir, then `hotseat reload`",
    ]
    assert "tiny-Q8_0" in listed.stdout
    assert answer.status == 200, running.log()
    assert "hf_secret" not in pulled.stdout + pulled.stderr + running.log()


@pytest.mark.llama
def test_a_model_that_runs_is_unloaded_and_deleted(running: Hotseat, hub: LocalHub, tmp_path: Path) -> None:
    """Afterwards neither the list nor the disk has it."""
    hub.repositories["test/tiny"] = {"tiny-Q8_0.gguf": Content(model_file("alpha").read_bytes())}
    running.cli("pull", "test/tiny", **hub.environment(tmp_path))
    running.load("tiny-Q8_0")
    shown = running.cli("show", "tiny-Q8_0")
    removed = running.cli("rm", "tiny-Q8_0", "--yes")

    assert "\nstate         ready: " in shown.stdout
    assert removed.returncode == 0, removed.stderr
    assert running.call("GET", "/v1/models").json()["data"] == []
    assert not list(tmp_path.rglob("*/blobs/*"))
    assert running.upstreams() == []


@pytest.mark.llama
def test_from_nothing_to_an_answer_in_three_commands(hub: LocalHub, tmp_path: Path) -> None:
    """init, serve, run: no model is on the machine before; the second run needs no hub."""
    hub.repositories["test/tiny"] = {"tiny-Q8_0.gguf": Content(model_file("alpha").read_bytes())}
    path = os.pathsep.join([str(present(SERVER).parent), os.environ["PATH"]])
    threads = {"LLAMA_ARG_THREADS": "1", "LLAMA_ARG_N_PREDICT": "8"}
    environ = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "PATH": path, **threads, **hub.environment(tmp_path)}
    began = time.monotonic()
    subprocess.run([PROGRAM, "init"], cwd=tmp_path, env={**os.environ, **environ}, check=True)
    with Hotseat(tmp_path / "config.yaml", tmp_path, environ=environ) as running:
        first = running.cli("run", "test/tiny", "hello", "--yes", **environ)
        print(f"an answer after {time.monotonic() - began:.1f} s")
        hub.repositories.clear()
        second = running.cli("run", "test/tiny:Q8_0", "hello", **environ)

    assert first.returncode == 0, first.stderr
    assert "chosen because it is the only model" in first.stderr
    assert first.stdout.strip()
    assert "tiny" not in first.stdout
    assert second.returncode == 0, second.stderr
    assert second.stdout.strip()


def big(size: int) -> Content:
    head, zeros = model_head(rows=size // ROW)
    return Content(head, zeros)


def words(folder: Path) -> list[str]:
    """The command line `hotseat pull test/big`, without a running hotseat."""
    config = folder / "config.yaml"
    command = "llama-server -m ${MODEL_PATH} --port ${PORT}"
    config.write_text(f"modelsDir: {{path: '{folder}/weights', cmd: '{command}'}}")
    return ["pull", "test/big", "--config", str(config), "--url", "http://127.0.0.1:1"]


def pulling(hub: LocalHub, folder: Path) -> subprocess.Popen[bytes]:
    """It as a process of its own; its output is in `said`."""
    env = {**os.environ, **hub.environment(folder)}
    with (folder / "said").open("wb") as said:
        return subprocess.Popen([str(PROGRAM), *words(folder)], env=env, stdout=said, stderr=said)


def test_a_terminal_shows_a_bar_and_ctrl_c_stops_it(hub: LocalHub, tmp_path: Path) -> None:
    """As much as the bar showed stays on the disk."""
    hub.repositories["test/big"] = {"big-Q4_K_M.gguf": big(64 * MIB)}
    hub.troubles.held_after = 8 * MIB
    with Terminal(*words(tmp_path), env=hub.environment(tmp_path)) as terminal:
        terminal.wait_for("8.0/64.0 MiB")
        terminal.type(CTRL_C)
        terminal.wait_for("hotseat: stopped; the same command continues where this one ended")
        code = terminal.exit_code()

    (part,) = tmp_path.glob("hf/hub/*/blobs/*.incomplete")
    assert code == 1
    assert round(part.stat().st_size / MIB, 1) == 8.0


def test_a_killed_download_is_continued(hub: LocalHub, tmp_path: Path) -> None:
    """kill -9 loses at most what had not been written yet."""
    hub.repositories["test/big"] = {"big-Q4_K_M.gguf": big(64 * MIB)}
    hub.troubles.held_after = 40 * MIB
    first = pulling(hub, tmp_path)
    (part,) = eventually(lambda: list(tmp_path.glob("hf/hub/*/blobs/*.incomplete")))
    eventually(lambda: part.stat().st_size >= 39 * MIB)
    first.send_signal(signal.SIGKILL)
    first.wait()
    there = part.stat().st_size
    hub.troubles.held_after, before = None, hub.sent
    hub.released.set()
    second = pulling(hub, tmp_path).wait(timeout=START_S)
    said = (tmp_path / "said").read_text()

    assert second == 0, said
    assert re.search(r"(39(\.\d)?|40) MiB of it is there already", said)
    assert hub.sent - before <= 64 * MIB - there + 4 * BLOCK + MIB  # the rest, and the head for the plan


@pytest.mark.longer
def test_gigabytes_pass_through_little_memory(hub: LocalHub, tmp_path: Path) -> None:
    """2 GiB in `just deep`: the file is written and verified block by block."""
    size = by_depth(128 * MIB, 2 * GIB)
    content = big(size)
    hub.repositories["test/big"] = {"big-Q4_K_M.gguf": content}
    assert content.sha256  # computed before the clock starts
    began = time.monotonic()
    pull = pulling(hub, tmp_path)
    peaks = [0]

    def has_ended() -> bool:
        peaks.append(peak_kib(pull.pid))
        return pull.poll() is not None

    eventually(has_ended, within=by_depth(START_S, 600.0))
    print(f"{size // MIB} MiB in {time.monotonic() - began:.1f} s, {max(peaks) >> 10} MiB of memory at most")

    assert pull.returncode == 0, (tmp_path / "said").read_text()
    assert (tmp_path / "weights/test/big/big-Q4_K_M.gguf").stat().st_size > size
    assert 0 < max(peaks) < 200 * 1024


def peak_kib(pid: int) -> int:
    """The most memory that a process has had since it began; 0 if it has ended."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
