"""The processes of containers, which are not descendants of the command that started them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.machines import MiB, Pool, add_process

from hotseat.hardware.containers import with_containers
from hotseat.hardware.machine import Machine
from hotseat.hardware.measurement import Use
from hotseat.hardware.process_table import census
from hotseat.identifiers import RAM

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
QWEN = "-m /models/qwen.gguf --port 8080"


def add_client(proc: Path, pid: int, command: str, start: int = 100) -> None:
    add_process(proc, pid, name=command.split()[0].rpartition("/")[2], command=command, start=start)


def add_container(proc: Path, pid: int, command: str, engine: str = "containerd-shim", start: int = 150) -> None:
    add_process(proc, pid, name=engine, command=f"/usr/bin/{engine} -id 4711", start=start - 1)
    add_process(proc, pid + 1, parent=pid, command=command, start=start)
    add_process(proc, pid + 2, parent=pid + 1, command="worker", start=start)


@pytest.mark.parametrize("engine", ["containerd-shim", "conmon"])
@pytest.mark.parametrize("first", ["/app/llama-server", "/sbin/docker-init -- /app/llama-server"])
def test_a_container_belongs_to_the_client_whose_words_it_got(proc: Path, engine: str, first: str) -> None:
    """The server and all its descendants, but not the engine and no other container."""
    add_client(proc, 40, f"docker run --rm --name qwen -p 5800:8080 {IMAGE} {QWEN}")
    add_container(proc, 60, f"{first} {QWEN}", engine)
    add_container(proc, 70, "/app/llama-server -m /models/gemma.gguf --port 8080", engine)

    assert with_containers({40: [40]}, census(proc), proc) == {40: (40, 61, 62)}


def test_the_client_may_be_wrapped(proc: Path) -> None:
    """`sudo docker run` is a tree with a client in it."""
    add_client(proc, 40, f"sudo docker run {IMAGE} {QWEN}")
    add_process(proc, 41, parent=40, name="docker", command=f"docker run {IMAGE} {QWEN}", start=101)
    add_container(proc, 60, f"llama-server {QWEN}")

    assert with_containers({40: [40, 41]}, census(proc), proc) == {40: (40, 41, 61, 62)}


@pytest.mark.parametrize(
    "command",
    [
        f"docker run {IMAGE}",
        f"docker run {IMAGE} -m /models/phi.gguf --port 8080",
        f"docker logs {IMAGE} {QWEN}",
        f"ssh gpu llama-server {QWEN}",
    ],
)
def test_a_client_without_its_container(proc: Path, command: str) -> None:
    """A container that got other words, or none that can be compared, is another's."""
    add_client(proc, 40, command)
    add_container(proc, 60, f"llama-server {QWEN}")

    assert with_containers({40: [40]}, census(proc), proc) == {}


def test_a_process_outside_of_containers_is_no_match(proc: Path) -> None:
    """The same server may run without one."""
    add_client(proc, 40, f"docker run {IMAGE} {QWEN}")
    add_process(proc, 60, command=f"llama-server {QWEN}", start=150)

    assert with_containers({40: [40]}, census(proc), proc) == {}


def test_an_older_container_is_another_clients(proc: Path) -> None:
    """One that an earlier hotseat left behind got the same words; the client's own is younger than the client."""
    add_client(proc, 40, f"podman run {IMAGE} {QWEN}")
    add_container(proc, 60, f"llama-server {QWEN}", "conmon", start=50)
    add_container(proc, 70, f"llama-server {QWEN}", "conmon")

    assert with_containers({40: [40]}, census(proc), proc) == {40: (40, 71, 72)}


def test_two_containers_that_may_be_meant_are_none(proc: Path) -> None:
    """A wrong figure would be worse than no figure."""
    add_client(proc, 40, f"podman run {IMAGE} {QWEN}")
    add_container(proc, 60, f"llama-server {QWEN}", "conmon")
    add_container(proc, 70, f"llama-server {QWEN}", "conmon")

    assert with_containers({40: [40]}, census(proc), proc) == {}


def test_a_server_in_a_found_container_is_measured(proc: Path) -> None:
    """Its memory is known, so memory of other programs is known too."""
    add_client(proc, 40, f"docker run {IMAGE} {QWEN}")
    add_container(proc, 60, f"llama-server {QWEN}")
    reading = Machine({RAM: Pool(taken={40: Use(MiB)})}, proc).sample([40])

    assert reading.elsewhere == ()
    assert reading.processes == {40: {RAM: Use(MiB)}}
