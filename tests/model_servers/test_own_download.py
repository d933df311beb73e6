"""Servers that download their model before they are ready."""

from __future__ import annotations

import asyncio
import shlex
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import PYTHON, command_for, model
from tests.support.waiting import come_true

from hotseat.model_servers import own_download
from hotseat.model_servers.own_download import downloads_itself
from hotseat.scheduling.events import UpstreamFailed
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.supervisor_rig import SupervisorRig

    from hotseat.catalog.spec import ModelSpec

HF = ("llama-server", "-hf", "org/repo")
TIMEOUT_S = 1.0


@pytest.mark.parametrize("is_in_shell", [False, True], ids=["the server itself", "a shell that started it"])
async def test_a_download_outlasts_the_health_timeout(rig: SupervisorRig, tmp_path: Path, is_in_shell: bool) -> None:
    """As long as it writes, the server gets the same time again; then it becomes ready as usual."""
    file = str(tmp_path / "model.gguf")
    spec = model("downloads_first", file, *HF, health_check_timeout_s=TIMEOUT_S)
    if is_in_shell:
        spec = in_shell(f"{shlex.join((*command_for('downloads_first', '${PORT}', file), *HF))}; true")
    loop, tasks = asyncio.get_running_loop(), Tasks()
    began = loop.time()
    starting = tasks.start(rig.ready(spec), "start")
    await come_true(lambda: loop.time() - began > 3 * TIMEOUT_S)
    assert not starting.done()
    (tmp_path / "DONE").touch()
    ready = await starting

    assert await rig.end(ready)


async def test_a_server_that_downloads_waits_for_its_disk(rig: SupervisorRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers no question about it: a thread waits, and the event loop does not."""
    responds, waiting = threading.Event(), list[int]()

    def wait(pid: int) -> dict[int, int]:
        assert threading.current_thread() is not threading.main_thread()
        waiting.append(pid)
        responds.wait()
        return {}

    monkeypatch.setattr(own_download, "moved", wait)
    start = rig.next_start(model("stops_downloading", *HF))
    starting = Tasks().start(rig.supervisor.start(start), "start")
    await come_true(lambda: waiting)
    await rig.stop(start)
    responds.set()

    assert isinstance(await starting, UpstreamFailed)


async def test_a_download_that_stands_still_fails(rig: SupervisorRig) -> None:
    """The server is stopped after its time, as any other."""
    error = await rig.failed(model("stops_downloading", *HF, health_check_timeout_s=TIMEOUT_S))

    assert "health check timed out after 1 seconds" in error


async def test_a_shell_that_starts_its_server_again_and_again_fails(rig: SupervisorRig) -> None:
    """Each process reads its libraries, and none of them lives from one look to the next."""
    crash = shlex.join((*PYTHON, "-c", "open('/dev/null', 'wb').write(bytes(4 << 20))", *HF))
    error = await rig.failed(in_shell(f"while :; do {crash}; done"))

    assert "health check timed out after 1 seconds" in error


def in_shell(script: str) -> ModelSpec:
    return model("", argv=("/bin/sh", "-c", script), health_check_timeout_s=TIMEOUT_S)


async def test_writing_does_not_excuse_a_server_that_names_a_file(rig: SupervisorRig, tmp_path: Path) -> None:
    """Its size is known, so its time is."""
    other = ("llama-server", "-m", "m.gguf")
    spec = model("downloads_first", str(tmp_path / "log"), *other, health_check_timeout_s=TIMEOUT_S)

    assert "health check timed out" in await rig.failed(spec)


@pytest.mark.parametrize(
    ("argv", "env", "does"),
    [
        (("llama-server", "-hf", "org/repo:Q8_0"), {}, True),
        (("sh", "-c", "exec llama-server --hf-repo org/repo"), {}, True),
        (("docker", "run", "ghcr.io/ggml-org/llama.cpp:server", "--model-url", "https://host/m.gguf"), {}, True),
        (("llama-server",), {"LLAMA_ARG_HF_REPO": "org/repo"}, True),
        (("llama-server", "-m", "m.gguf"), {}, False),
        (("some-server", "-hf", "org/repo"), {}, False),
    ],
)
def test_commands_that_download(argv: tuple[str, ...], env: dict[str, str], does: bool) -> None:
    """Also through a shell, a container and the environment."""
    assert downloads_itself(argv, env) is does
