"""The new process: the installed program and, under systemd, no child of the old one."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import eventually

from hotseat.handover.successor import ChildOfSystemd, launched, new_program
from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.os_processes import become_subreaper, children

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = ["/venv/bin/python", "-m", "hotseat", "serve"]
SLEEPER = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
SPEAKER = [sys.executable, "-I", "-S", "-c", "import os, sys; os.write(int(sys.argv[1]), b'%d' % os.getpgrp())"]


@pytest.fixture
def passed() -> Iterator[socket.socket]:
    """The descriptor that the new process gets."""
    _, theirs = pair = socket.socketpair()
    with pair[0], theirs:
        yield theirs


def test_the_launcher_has_ended(passed: socket.socket) -> None:
    """The process is no child of this one, even though this one collects the orphans of all its descendants."""
    become_subreaper()
    process = ChildOfSystemd(SLEEPER, os.environ, passed.fileno())
    inherited = process.pid in children(os.getpid())
    process.send_signal(signal.SIGKILL)

    assert process.exit_code() == 0
    assert not inherited
    process.send_signal(signal.SIGKILL)  # another process may have that pid by now


def test_it_gets_the_descriptor_and_a_group_of_its_own() -> None:
    """Signals of a terminal reach the old process only."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = ChildOfSystemd([*SPEAKER, str(theirs.fileno())], os.environ, theirs.fileno())

        assert ours.recv(100) == b"%d" % process.pid
        assert ours.recv(100) == b""
    process.exit_code()


def test_it_has_ended_before_anybody_looks(passed: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process with the same pid is taken for it."""
    monkeypatch.setattr("hotseat.handover.successor.start_of", lambda _: None)
    process = ChildOfSystemd(SLEEPER, os.environ, passed.fileno())
    process.send_signal(signal.SIGKILL)

    assert process.exit_code() == 0
    assert start_of(process.pid) is not None
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: start_of(process.pid) is None)


@pytest.mark.parametrize(
    ("interpreter", "reason"), [(sys.executable, "No such file"), ("/bin/false", "its launcher failed")]
)
def test_it_cannot_be_started(
    passed: socket.socket, monkeypatch: pytest.MonkeyPatch, interpreter: str, reason: str
) -> None:
    """The reason is passed on, and no descriptor is left."""
    monkeypatch.setattr(sys, "executable", interpreter)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=reason):
        launched(["/nowhere/hotseat"], os.environ, passed.fileno())

    assert os.listdir("/proc/self/fd") == before


def test_the_installed_script(tmp_path: Path) -> None:
    """It names the interpreter that an upgrade may have replaced."""
    script = tmp_path / "hotseat"
    script.touch(mode=0o755)

    assert new_program([str(script), "serve"], "/venv/bin/python") == [str(script), "serve"]


def test_a_script_that_cannot_be_started_again(tmp_path: Path) -> None:
    """It is gone, its path was relative, or Python was given the module: the interpreter runs the package."""
    (tmp_path / "__main__.py").touch(mode=0o755)
    for started_as in (str(tmp_path / "gone"), "./hotseat", str(tmp_path / "__main__.py")):
        assert new_program([started_as, "serve"], "/venv/bin/python") == MODULE
