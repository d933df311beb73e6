"""All processes, which belong to a server, and which to its container."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import A_CONTAINERS, MACHINES_OWN, MiB, Pool, add_process, link, write
from tests.support.waiting import eventually

from hotseat.identifiers import RAM
from hotseat.memory.kernel import figures, is_first_pid_namespace, open_files
from hotseat.memory.machine import Machine
from hotseat.memory.measurement import Use
from hotseat.memory.processes import Process, census, look_at, trees, with_containers

if TYPE_CHECKING:
    from pathlib import Path


def test_a_tree_is_descendants_and_whoever_is_left_in_the_session(proc: Path) -> None:
    """A worker whose parent died belongs to the tree by its session, one in another session by its parent."""
    add_process(proc, 40, parent=1)
    add_process(proc, 41, parent=40, session=40)
    add_process(proc, 42, parent=41, session=42)  # left the session, kept its parent
    add_process(proc, 43, parent=1, session=40)  # lost its parent, kept the session
    add_process(proc, 44, parent=43, session=44)
    add_process(proc, 50, parent=1)

    grown = trees([40, 60], census(proc))

    assert {root: sorted(pids) for root, pids in grown.items()} == {40: [40, 41, 42, 43, 44]}


def test_a_dead_leader_may_leave_processes_behind(proc: Path) -> None:
    """They still count as its memory."""
    add_process(proc, 43, parent=1, session=40)

    assert trees([40], census(proc)) == {40: [43]}


def test_names_may_hold_anything(proc: Path) -> None:
    """Brackets, blanks and invalid bytes do not shift the columns after the name."""
    write(proc / "40/stat", b"40 (a) b (\xff c) S 7 40 39 0 -1 1")
    write(proc / "41/stat", "")

    assert census(proc) == {40: Process(40, 7, 39, "a) b (\ufffd c")}


def test_real_processes_are_found() -> None:
    """The kernel reports our own children correctly."""
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True)
    try:
        grown = eventually(lambda: [pid for pid in trees([shell.pid], census())[shell.pid] if pid != shell.pid])
        seen = eventually(lambda: (found := look_at(grown[0])) and found.name == "sleep" and found)

        assert seen == Process(grown[0], shell.pid, shell.pid, "sleep")
        assert set(trees([os.getpid()], census())[os.getpid()]) >= {os.getpid(), shell.pid, *grown}
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


def test_a_machine_without_proc_has_no_processes(tmp_path: Path) -> None:
    """This is the case on a Mac."""
    assert census(tmp_path / "nowhere") == {}
    assert open_files(1, tmp_path) == {}
    assert figures(tmp_path / "nothing") == {}


def test_a_container_is_known_by_its_namespace(tmp_path: Path) -> None:
    """The initial pid namespace has the same number in every kernel."""
    link(tmp_path / "machine/self/ns/pid", MACHINES_OWN)
    link(tmp_path / "container/self/ns/pid", A_CONTAINERS)

    assert is_first_pid_namespace(tmp_path / "machine")
    assert not is_first_pid_namespace(tmp_path / "container")


def test_figures_are_bytes_where_there_is_a_unit(tmp_path: Path) -> None:
    """All number formats of the kernel work, and other lines are ignored."""
    write(
        tmp_path / "f", "55e2-7fff ---p 0 00:00 0 [rollup]\nRss:   12 kB\ndrm-x:\t3 MiB\ny:\t4 KiB\nfile 7\nZ:\tmax\n"
    )

    assert figures(tmp_path / "f") == {"Rss": 12 << 10, "drm-x": 3 << 20, "y": 4 << 10, "file": 7}


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
