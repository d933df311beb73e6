"""The private socket behind the relay checks no keys, so only our own user may connect."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.hotseat import Hotseat

from hotseat.net.private_socket import private_socket

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def test_the_socket_is_ours_alone() -> None:
    """The socket has mode 0600 whatever the umask is, and is removed afterwards."""
    before = os.umask(0)
    try:
        with private_socket("api") as sock:
            path = Path(sock.getsockname())
            rights = path.stat()
    finally:
        os.umask(before)

    assert stat.S_ISSOCK(rights.st_mode)
    assert stat.S_IMODE(rights.st_mode) == 0o600
    assert rights.st_uid == os.geteuid()
    assert not path.exists()


def test_the_socket_is_ours_alone_where_the_rights_of_a_socket_cannot_be_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """macOS refuses fchmod on a socket; the socket still has mode 0600 because it is created with it."""

    def refused(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fchmod", refused)
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    with private_socket("api") as sock:
        rights = Path(sock.getsockname()).stat()

    assert stat.S_IMODE(rights.st_mode) == 0o600


def test_a_client_can_connect_before_anybody_answers() -> None:
    """Requests for the management API wait while it is still being imported; they are not refused."""
    with private_socket("api") as sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(sock.getsockname())
        client.sendall(b"hello")
        accepted, _ = sock.accept()
        with accepted:
            received = accepted.recv(5)

    assert received == b"hello"


def test_the_program_keeps_its_socket_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """The folder has mode 0700, the socket 0600, and both are removed when the program exits."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    with Hotseat({"models": {}}, tmp_path, environ={"TMPDIR": str(folder)}) as rig:
        (private,) = folder.iterdir()
        rights, api_socket = private.stat(), (private / "api").stat()
        with socket.socket(socket.AF_UNIX) as waiter:
            waiter.connect(str(private / "api"))
        answer = rig.call("GET", "/health")

    assert (stat.S_IMODE(rights.st_mode), rights.st_uid) == (0o700, os.geteuid())
    assert (stat.S_IMODE(api_socket.st_mode), api_socket.st_uid) == (0o600, os.geteuid())
    assert answer.status == 200
    assert list(folder.iterdir()) == []


KEEPER = """
import sys, tempfile
from hotseat.net.private_socket import private_socket
tempfile.tempdir = sys.argv[1]
with private_socket("api") as sock:
    print(sock.getsockname(), flush=True)
    sys.stdin.read()
"""


@contextmanager
def kept_in(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with such a socket, and its folder."""
    words = [sys.executable, "-c", KEEPER, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip()).parent
        process.kill()


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that one: not the folder of a living process, of one that begins, or of a version without a lock."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    beginning, older = tmp_path / "hotseat-begins", tmp_path / "hotseat-older"
    beginning.mkdir()
    (beginning / "lock").touch()
    older.mkdir()
    with socket.socket(socket.AF_UNIX) as unlocked, kept_in(tmp_path) as (_, living):
        unlocked.bind(str(older / "api"))
        with kept_in(tmp_path) as (process, left):
            process.kill()
            process.wait()
        was_left = left.exists()
        with private_socket("api") as sock:
            own = Path(sock.getsockname()).parent
            there = {*tmp_path.iterdir()}

    assert was_left
    assert there == {beginning, older, living, own}


def test_the_folder_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could remove it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with kept_in(tmp_path) as (process, left):
        process.kill()
        process.wait()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with private_socket("api"):
        pass

    assert left.exists()


def test_where_nothing_can_be_locked_no_folder_is_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have no locks, or not always."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as without_locks:
        without_locks.setattr(fcntl, "flock", refused)
        first = private_socket("api")
        path = Path(first.__enter__().getsockname())
    with private_socket("api"):
        is_there = path.exists()
    first.__exit__(None, None, None)

    assert is_there


def test_looking_for_leftovers_takes_no_longer_in_a_full_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many entries are looked at."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("hotseat.net.private_socket.MOST_LOOKED_AT", 0)
    with kept_in(tmp_path) as (process, left):
        process.kill()
        process.wait()
    with private_socket("api"):
        pass

    assert left.exists()
