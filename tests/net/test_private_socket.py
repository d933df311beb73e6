"""The private socket behind the relay checks no keys, so only our own user may connect."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.hotseat import Hotseat

from hotseat.net.private_socket import private_socket

if TYPE_CHECKING:
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
