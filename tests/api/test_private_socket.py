"""The private socket behind the relay checks no keys, so only our own user may connect."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import TYPE_CHECKING

from tests.support.hotseat import Hotseat

from hotseat.api.server import private_socket

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_socket_is_ours_alone(tmp_path: Path) -> None:
    """The socket has mode 0600 whatever the umask is, and is removed afterwards."""
    path = tmp_path / "api"
    before = os.umask(0)
    try:
        with private_socket(str(path)):
            rights = path.stat()
    finally:
        os.umask(before)

    assert stat.S_ISSOCK(rights.st_mode)
    assert stat.S_IMODE(rights.st_mode) == 0o600
    assert rights.st_uid == os.geteuid()
    assert not path.exists()


def test_the_socket_is_ours_alone_where_the_rights_of_a_socket_cannot_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """macOS refuses fchmod on a socket; the socket still has mode 0600 because it is created with it."""

    def refused(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fchmod", refused)
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    path = tmp_path / "api"
    with private_socket(str(path)):
        rights = path.stat()

    assert stat.S_IMODE(rights.st_mode) == 0o600


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
