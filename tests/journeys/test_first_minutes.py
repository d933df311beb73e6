"""The first minutes with hotseat: from `pip install` into an empty environment to the first answer, timed."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.client import chat_body
from tests.support.hotseat import START_S
from tests.support.llama import REPOSITORY, SERVER, model_file, present
from tests.support.ports import free_port
from tests.support.waiting import eventually

from hotseat.cli.client import Server
from hotseat.cli.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROMISED_S = 120.0


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(argv, cwd=REPOSITORY, check=True, capture_output=True)
    [built] = (tmp_path / "dist").glob("*.whl")
    return built


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A newcomer's home: two models in ~/models and nothing else."""
    (tmp_path / "home/models").mkdir(parents=True)
    for name in ("alpha", "beta"):
        shutil.copy(model_file(name), tmp_path / f"home/models/{name}-F16.gguf")
    return tmp_path / "home"


@pytest.mark.llama
@pytest.mark.timeout(600)
def test_from_pip_install_to_the_first_answer(wheel: Path, home: Path) -> None:
    """Under two minutes, by three commands: pip install, hotseat init, hotseat serve.

    CPU time is judged, which a busy machine does not make longer.
    """
    programs = f"{home}/venv/bin{os.pathsep}{present(SERVER).parent}{os.pathsep}{os.defpath}"
    # One thread: two on two busy cores take 600 times as long for a token.
    environment = {"HOME": str(home), "PATH": programs, "LLAMA_ARG_THREADS": "1"}
    began, used = time.monotonic(), cpu_of_children()
    run([sys.executable, "-m", "venv", "venv"], home, environment)
    run(["pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], home, environment | pip_settings())
    installed = time.monotonic()
    said = run(["hotseat", "init"], home, environment)
    port = free_port()
    with subprocess.Popen(["hotseat", "serve", "--listen", str(port)], cwd=home, env=environment) as server:
        try:
            answer = first_answer(f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
    took, used = time.monotonic() - began, cpu_of_children() - used

    print(f"installed after {installed - began:.1f} s, answered after {took:.1f} s; {used:.1f} s of CPU time")
    assert said.startswith("config.yaml: 2 models (2 chat)")
    assert answer
    assert server.returncode == 0
    assert used < PROMISED_S


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


def first_answer(url: str) -> str:
    """By the alias that init gave it."""
    server = Server(url)
    eventually(lambda: is_ready(server), within=START_S)
    return "".join(server.stream("/v1/chat/completions", chat_body("alpha", max_tokens=8, stream=True)))


def is_ready(server: Server) -> bool:
    try:
        return bool(server.ask("GET", "/hotseat/ready")["status"] == "ok")
    except Problem:
        return False
