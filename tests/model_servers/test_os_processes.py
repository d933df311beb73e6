"""What the system tells of os_processes, and what we make of it where it tells less."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.supervisor_rig import PYTHON
from tests.support.waiting import eventually

from hotseat.model_servers import os_processes
from hotseat.model_servers.descendants import is_running, start_of
from hotseat.model_servers.guarded_process import describe
from hotseat.model_servers.os_processes import (
    GUARD,
    MARKER,
    children,
    collect_one,
    command_line,
    group_of,
    kill_each,
    marker_of,
    parent_of,
    prctl,
    session_of,
    signal_group,
    stat_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 2**22 + 1
"""Above the highest pid there can be."""


@pytest.fixture
def sleeper() -> Iterator[int]:
    """In a session of its own, with a marker; its parent passes for a guard, or the next hotseat would end it."""
    argv = ["sh", "-c", f"{MARKER}=launch-7 setsid sleep 1000 & wait", GUARD]
    with subprocess.Popen(argv) as parent:
        (pid,) = eventually(lambda: children(parent.pid))
        # A program that has just begun shows nothing yet: neither `setsid` nor, after it, `sleep`.
        eventually(lambda: command_line(pid)[:1] == ["sleep"] and marker_of(pid))
        eventually(lambda: session_of(pid) == pid)
        yield pid
        os.kill(pid, signal.SIGKILL)


def test_a_child_is_found_by_its_parent() -> None:
    with subprocess.Popen(["sleep", "1000"]) as child:
        found, parent = children(os.getpid()), parent_of(child.pid)
        child.kill()

    assert child.pid in found
    assert parent == os.getpid()


def test_a_process_is_known_by_its_marker_group_and_session(sleeper: int) -> None:
    assert marker_of(sleeper) == "launch-7"
    assert group_of(sleeper) == session_of(sleeper) == sleeper


def test_of_a_process_that_is_gone_nothing_is_known() -> None:
    """And signals to it do no harm."""
    kill_each([NOBODY])
    signal_group(NOBODY, signal.SIGTERM)

    assert [marker_of(NOBODY), group_of(NOBODY), session_of(NOBODY), parent_of(NOBODY)] == [None] * 4
    assert children(NOBODY) == []


def test_children_are_read_from_the_threads_where_the_kernel_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every thread of a process may have children."""
    for thread, listed in (("7", "8 9 "), ("71", "10 ")):
        (tmp_path / "7" / "task" / thread).mkdir(parents=True)
        (tmp_path / "7" / "task" / thread / "children").write_text(listed)
    monkeypatch.setattr(os_processes, "PROC", str(tmp_path))

    assert sorted(children(7)) == [8, 9, 10]


def test_children_are_found_by_asking_all_where_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may hold brackets and spaces."""
    for pid, parent in ((8, 7), (9, 7), (10, 1)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) S 1 (b) S {parent} 1 1 0")
    monkeypatch.setattr(os_processes, "PROC", str(tmp_path))

    assert sorted(children(7)) == [8, 9]


def test_without_a_process_table_nobody_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.setattr(os_processes, "PROC", str(tmp_path / "proc"))

    assert children(os.getpid()) == []


def test_without_prctl_nothing_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())

    assert prctl(36, 1) is False


@pytest.mark.parametrize("has_waitid", [True, False])
def test_the_dead_are_seen_before_their_pid_is_given_back(has_waitid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system can; macOS has them collected already."""
    if not has_waitid:
        monkeypatch.delattr(os, "waitid")
    child = subprocess.Popen([*PYTHON, "-c", "raise SystemExit(3)"], stdin=subprocess.PIPE)
    seen: list[tuple[int, bool]] = []
    while not (ended := collect_one(before=lambda pid: seen.append((pid, os.path.exists(f"/proc/{pid}"))))):
        pass
    child.communicate()

    assert seen == [(child.pid, has_waitid)]
    assert ended == (child.pid, 3 << 8)
    with pytest.raises(ChildProcessError):
        collect_one(before=print)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (1 << 8, "exited with code 1"),
        (int(signal.SIGKILL), "was terminated by SIGKILL"),
        (int(signal.SIGSEGV) | 0x80, "was terminated by SIGSEGV"),
        (50, "was terminated by signal 50"),
    ],
)
def test_the_end_of_a_process_is_described_in_words(status: int, words: str) -> None:
    assert describe(status) == words


@contextmanager
def no_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_look_at_a_process_while_no_descriptor_is_left(sleeper: int) -> None:
    """What cannot be looked at has not ended: a hotseat that takes its first process for ended would end itself."""
    started = start_of(sleeper)
    with no_descriptors():
        known, is_there, was_never_there = start_of(sleeper), is_running(sleeper, started), is_running(NOBODY, started)

    assert known is None
    assert (is_there, was_never_there) == (True, False)
    assert not is_running(sleeper, (started or 0) - 1)


def test_a_zombie_is_not_running() -> None:
    """It has ended, though its pid is still taken."""
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        started = int((stat_of(child.pid) or [])[19])

        assert not is_running(child.pid, started)
