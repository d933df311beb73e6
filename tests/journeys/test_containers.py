"""Models whose servers run in containers: a real podman and a real docker, and the real llama-server in them."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import container_engines
from tests.support.container_engines import IMAGE
from tests.support.forked_hotseat import ForkedHotseat
from tests.support.llama import MODELS, REPOSITORY
from tests.support.page_blocks import blocks_of
from tests.support.processes import command_line
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.support.container_engines import ContainerEngine
    from tests.support.hotseat import Hotseat

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module", params=["podman", "docker"])
def prepared(request: pytest.FixtureRequest) -> Iterator[ContainerEngine]:
    """An engine with its own storage, and the image with llama-server."""
    if os.geteuid():
        pytest.skip("container engines of their own need root")
    with TemporaryDirectory() as folder, getattr(container_engines, request.param)(Path(folder)) as engine:
        engine.import_image()
        yield engine


@pytest.fixture
def engine(prepared: ContainerEngine) -> Iterator[ContainerEngine]:
    """The engine; at the end of the test no container may be left."""
    yield prepared
    try:
        eventually(lambda: prepared.containers() == [])
    finally:
        prepared.remove_containers()


@pytest.fixture
def serve(tmp_path: Path, engine: ContainerEngine) -> Iterator[Callable[..., Hotseat]]:
    with ExitStack() as stack:

        def start(models: Mapping[str, Any], **settings: object) -> Hotseat:
            hotseat = ForkedHotseat({**settings, "models": models}, tmp_path, environ=engine.environ)
            stack.callback(lambda: print(hotseat.log()))
            return stack.enter_context(hotseat)

        yield start


@pytest.fixture
def rig(serve: Callable[..., Hotseat], engine: ContainerEngine) -> Hotseat:
    """Two models in containers, one at a time."""
    return serve({"alpha": engine.model("alpha"), "beta": engine.model("beta", "beta")})


def test_a_swap_from_container_to_container(rig: Hotseat, engine: ContainerEngine) -> None:
    """Each answers under the name that the client used, and the first container is gone when the second runs."""
    answers = [rig.chat("alpha"), rig.chat("beta"), rig.chat("alpha")]

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [answer.json()["model"] for answer in answers] == ["alpha", "beta", "alpha"]
    assert engine.containers() == ["alpha"]


DOCUMENTED = {
    "ghcr.io/ggml-org/llama.cpp:server": IMAGE,
    "/srv/models:": f"{MODELS.resolve()}:",
    "qwen.gguf": "alpha.gguf -t 1 -tb 1",
    "gemma.gguf": "beta.gguf -t 1 -tb 1",
}


def test_the_documented_configuration(tmp_path: Path, engine: ContainerEngine) -> None:
    """The page's file works with another image and other models; podman's replaces a container that was left behind."""
    page = (REPOSITORY / "docs/howto/containers.md").read_text()
    (text,) = [block.text for block in blocks_of(page) if block.about == f"{engine.program}.yaml"]
    for ours, theirs in DOCUMENTED.items():
        text = text.replace(ours, theirs)
    config = tmp_path / "documented.yaml"
    config.write_text(text)
    if engine.program == "podman":
        engine.create("qwen")
    with ForkedHotseat(config, tmp_path, environ=engine.environ) as rig:
        answers = [rig.chat("qwen"), rig.chat("gemma")]

        assert [(answer.status, answer.json().get("model")) for answer in answers] == [(200, "qwen"), (200, "gemma")]
        assert engine.containers() == ["gemma"]


def test_an_unload_runs_the_stop_command(serve: Callable[..., Hotseat], engine: ContainerEngine) -> None:
    """The client passes no signal on here, so nothing else could have ended the container."""
    rig = serve({"alpha": engine.model("alpha", options="--sig-proxy=false")})
    rig.load("alpha")
    answer = rig.call("DELETE", "/upstream/alpha")

    assert answer.status == 200
    assert eventually(lambda: rig.running() == [])
    assert engine.containers() == []
    assert "did not exit in time" not in rig.log()


def test_a_server_that_crashes_in_its_container(rig: Hotseat, engine: ContainerEngine) -> None:
    """The model has failed with the container's exit status, and the next request starts another container."""
    rig.load("alpha")
    os.kill(engine.pid("alpha"), signal.SIGKILL)
    eventually(lambda: rig.running() == [])

    eventually(lambda: "exited with code 137" in rig.log())
    assert rig.chat("alpha").status == 200
    assert engine.containers() == ["alpha"]


def test_a_killed_hotseat_leaves_no_container(
    serve: Callable[..., Hotseat], engine: ContainerEngine, tmp_path: Path
) -> None:
    """The guard runs the stop commands, so the names are free for the next start."""
    rig = serve(
        {name: engine.model(name, name, "--sig-proxy=false") for name in ("alpha", "beta")},
        groups={"both": {"swap": False, "members": ["alpha", "beta"]}},
    )
    servers = [rig.load(name) and engine.pid(name) for name in ("alpha", "beta")]
    rig.process.kill()
    rig.process.wait()
    eventually(lambda: not any(command_line(pid) for pid in servers))
    eventually(lambda: not rig.processes())
    eventually(lambda: engine.containers() == [])  # docker's daemon removes them after the client's end
    folder = tmp_path / "next"
    folder.mkdir()
    with ForkedHotseat(rig.config, folder, port=rig.port, environ=engine.environ) as successor:
        assert successor.chat("alpha").status == 200


@pytest.mark.parametrize("prepared", ["podman"], indirect=True)
def test_the_next_start_removes_what_a_killed_guard_left(rig: Hotseat, engine: ContainerEngine, tmp_path: Path) -> None:
    """Nobody ran the stop command. The container is ended and its monitor is not, so it frees the name."""
    rig.load("alpha")
    (guard,) = rig.processes("hotseat.model_servers.guard_process")
    (record,) = eventually(lambda: [*tmp_path.glob("state/hotseat/processes/*.json")])
    eventually(lambda: str(engine.pid("alpha")) in record.read_text())
    os.kill(guard, signal.SIGSTOP)
    rig.process.kill()
    os.kill(guard, signal.SIGKILL)
    rig.process.wait()
    with ForkedHotseat(rig.config, tmp_path, port=rig.port, environ=engine.environ) as successor:
        eventually(lambda: engine.containers() == [])
        answer = successor.chat("alpha")

    assert answer.status == 200


@pytest.mark.parametrize("prepared", ["podman"], indirect=True)
def test_a_killed_client_takes_its_container_along(rig: Hotseat, engine: ContainerEngine) -> None:
    """The guard ends the container, its monitor removes it, and the next request starts another."""
    client = rig.load("alpha")
    os.kill(client, signal.SIGKILL)
    eventually(lambda: rig.running() == [])

    assert engine.containers() == []
    assert rig.chat("alpha").status == 200


@pytest.mark.parametrize("prepared", ["podman"], indirect=True)
def test_a_killed_shell_takes_its_container_along(serve: Callable[..., Hotseat], engine: ContainerEngine) -> None:
    """The same if the guard cannot read the container's name in the command."""
    alpha = engine.model("alpha")
    rig = serve({"alpha": {**alpha, "cmd": f"sh -c '{alpha['cmd']}'"}})
    shell = rig.load("alpha")
    os.kill(shell, signal.SIGKILL)
    eventually(lambda: rig.running() == [])

    assert engine.containers() == []
    assert rig.chat("alpha").status == 200


@pytest.mark.parametrize("prepared", ["podman"], indirect=True)
def test_a_container_whose_removal_takes_time(
    serve: Callable[..., Hotseat], engine: ContainerEngine, tmp_path: Path
) -> None:
    """The guard ends the container, and none of the programs that its monitor runs to remove it."""
    runtime, removed = tmp_path / "runtime", tmp_path / "removed"
    slow = f'case " $* " in *" delete "*) sleep 1; touch {removed};; esac'
    runtime.write_text(f'#!/bin/sh\n{slow}\nexec runc "$@"\n')
    runtime.chmod(0o755)
    alpha = engine.model("alpha")
    command = str(alpha["cmd"]).replace("podman run", f"podman --runtime {runtime} run")
    rig = serve({"alpha": {**alpha, "cmd": f"sh -c '{command}'"}})
    os.kill(rig.load("alpha"), signal.SIGKILL)
    eventually(lambda: rig.running() == [])

    assert removed.exists()
    assert engine.containers() == []


@pytest.mark.parametrize("prepared", ["podman"], indirect=True)
def test_a_killed_guard_takes_its_containers_along(rig: Hotseat, engine: ContainerEngine) -> None:
    """hotseat inherits the monitors and lets them remove the containers."""
    rig.load("alpha")
    (guard,) = rig.processes("hotseat.model_servers.guard_process")
    os.kill(guard, signal.SIGKILL)
    eventually(lambda: rig.running() == [])

    assert engine.containers() == []
    assert rig.chat("alpha").status == 200


def test_a_name_that_is_taken(rig: Hotseat, engine: ContainerEngine) -> None:
    """The error says what to do about a container that somebody left behind."""
    engine.create("alpha")
    answer = rig.chat("alpha")
    engine.remove_containers()

    assert answer.status == 503
    assert "A container with the name in `cmd` already exists" in answer.body.decode()
    assert rig.chat("alpha").status == 200


def test_the_memory_of_a_container_is_its_models(serve: Callable[..., Hotseat], engine: ContainerEngine) -> None:
    """The server is no descendant of the command; its memory counts for the model, with that of the client."""
    rig = serve({"alpha": engine.model("alpha")}, devices={"ram": {"memory": "8GiB"}})
    rig.chat("alpha")
    resident = resident_bytes(engine.pid("alpha")) + resident_bytes(rig.health()["alpha"]["pid"])

    def measured() -> int:
        (model,) = rig.call("GET", "/hotseat/models").json()["models"]
        return int((model["footprint"]["measured"] or {}).get("ram", 0))

    assert eventually(measured) == pytest.approx(resident, rel=0.2)
    assert "alpha" in rig.cli("devices").stdout


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE")
