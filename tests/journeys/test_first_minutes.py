"""The first minutes with hotseat, timed: from an empty environment to the first answer.

A newcomer has models in ~/models, or comes from Ollama, or from llama-swap.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.client import chat_body
from tests.support.depth import IS_DEEP
from tests.support.hotseat import START_S
from tests.support.llama import REPOSITORY, SERVER, model_file, present
from tests.support.model_folders import put_ollama
from tests.support.ports import free_port
from tests.support.waiting import eventually

from hotseat.cli.client import Server
from hotseat.cli.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROMISED_S = 120.0
LLAMA_SWAP = """\
healthCheckTimeout: 120
macros:
  "server": llama-server --port ${PORT}
models:
  "llama3.2":
    cmd: ${server} -m MODEL
    ttl: 300
groups:
  "main": {swap: true, exclusive: true, members: ["llama3.2"]}
"""


@dataclass(frozen=True)
class Side:
    """Where a newcomer comes from."""

    furnish: Callable[[Path], None]
    first: tuple[str, ...]
    """The command before `hotseat serve`."""
    says: str
    model: str
    """The name that the newcomer knows."""


def models_folder(home: Path) -> None:
    (home / "models").mkdir()
    for name in ("alpha", "beta"):
        shutil.copy(model_file(name), home / f"models/{name}-F16.gguf")


def ollama(home: Path) -> None:
    put_ollama(home / ".ollama/models", "llama3.2", "latest", model=model_file("alpha").read_bytes())


def llama_swap(home: Path) -> None:
    (home / "config.yaml").write_text(LLAMA_SWAP.replace("MODEL", str(model_file("alpha"))))


SIDES = {
    "models": Side(models_folder, ("hotseat", "init"), "config.yaml: 2 models (2 chat)", "alpha"),
    "ollama": Side(ollama, ("hotseat", "init"), "config.yaml: 1 model (1 chat)\n  llama3.2:latest\n", "llama3.2"),
    "llama-swap": Side(llama_swap, ("hotseat", "check", "config.yaml"), "ok: 1 model, 0 warnings.", "llama3.2"),
}


@dataclass(frozen=True)
class Installed:
    programs: Path
    seconds: float
    cpu_s: float


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The program of these tests; in `just deep`, the wheel that pip installs into an empty environment."""
    if not IS_DEEP:
        return Installed(Path(sys.executable).parent, 0.0, 0.0)
    folder = tmp_path_factory.mktemp("installed")
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    began, used = time.monotonic(), cpu_of_children()
    environment = environment_of(folder, folder / "venv/bin") | pip_settings()
    run([sys.executable, "-m", "venv", "venv"], folder, environment)
    run(["pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], folder, environment)
    return Installed(folder / "venv/bin", time.monotonic() - began, cpu_of_children() - used)


@pytest.mark.longer
@pytest.mark.llama
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_from_the_installation_to_the_first_answer(installed: Installed, tmp_path: Path, side: Side) -> None:
    """Under two minutes: hotseat init or check, hotseat serve, and in `just deep` pip install before them.

    CPU time is judged, which a busy machine does not make longer.
    """
    side.furnish(tmp_path)
    environment, port = environment_of(tmp_path, installed.programs), free_port()
    began, used = time.monotonic(), cpu_of_children()
    said = run(list(side.first), tmp_path, environment)
    program = str(installed.programs / "hotseat")
    with subprocess.Popen([program, "serve", "--listen", str(port)], cwd=tmp_path, env=environment) as server:
        try:
            answer = first_answer(f"http://127.0.0.1:{port}", side.model)
            took = time.monotonic() - began
        finally:
            server.terminate()
    used = cpu_of_children() - used

    print(
        f"installed after {installed.seconds:.1f} s, answered {took:.1f} s later;"
        f" {installed.cpu_s:.1f} s and {used:.1f} s of CPU time"
    )
    assert said.startswith(side.says)
    assert answer
    assert server.returncode == 0
    assert installed.cpu_s + used < PROMISED_S


def environment_of(home: Path, programs: Path) -> dict[str, str]:
    """One thread: two on two busy cores take 600 times as long for a token."""
    path = os.pathsep.join((str(programs), str(present(SERVER).parent), os.defpath))
    return {"HOME": str(home), "PATH": path, "LLAMA_ARG_THREADS": "1"}


def cpu_of_children() -> float:
    """Of those that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def run(argv: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    program = shutil.which(argv[0], path=environment["PATH"]) or argv[0]
    done = subprocess.run([program, *argv[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pip_settings() -> dict[str, str]:
    """Where packages come from is the machine's business."""
    kinds = ("PIP_", "SSL_", "HTTP", "http", "HOME")
    return {name: value for name, value in os.environ.items() if name.startswith(kinds)}


def first_answer(url: str, model: str) -> str:
    server = Server(url)
    eventually(lambda: is_ready(server), within=START_S)
    return "".join(server.stream("POST", "/v1/chat/completions", chat_body(model, max_tokens=8, stream=True)))


def is_ready(server: Server) -> bool:
    try:
        return bool(server.ask("GET", "/hotseat/ready")["status"] == "ok")
    except Problem:
        return False
