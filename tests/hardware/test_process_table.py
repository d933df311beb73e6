"""The process table and its trees."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from tests.support.machines import A_CONTAINERS, MACHINES_OWN, add_process, link, write
from tests.support.waiting import eventually

from hotseat.hardware.kernel import figures, is_first_pid_namespace, open_files
from hotseat.hardware.process_table import Process, census, look_at, trees

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
