"""How long a guard keeps the servers of a hotseat that was killed, and the socket where the next one asks for them."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hotseat.model_servers.guard_listener import is_same_user
from hotseat.model_servers.private_folders import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

CONNECT_S: Seconds = 1.0


@dataclass(frozen=True, slots=True)
class GuardGrace:
    seconds: Seconds
    socket_path: Path
    """In a folder that only the user may enter; it is created if it is missing."""

    def listen(self) -> Listening | None:
        """A socket for the guard, under this name from now on; None: it cannot be, and servers end with hotseat."""
        listener = socket.socket(socket.AF_UNIX)
        try:
            check_private(self.socket_path.parent)
            return Listening(listener, bind(listener, self.socket_path))
        except OSError as problem:
            listener.close()
            log.warning("model servers are not kept after a crash path=%s error=%r", self.socket_path, str(problem))
            return None


class Listening(NamedTuple):
    listener: socket.socket
    inode: int
    """Of its name: it shows whether another hotseat has taken the name."""


def check_private(folder: Path) -> None:
    """OSError: others may enter it, or it cannot be created."""
    make_private(folder)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder (mode 0700) of this user")


def bind(listener: socket.socket, path: Path) -> int:
    """Under another name first: whoever finds the right one can connect. Returns the inode of the name."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    with socket_name(beside) as name:
        listener.bind(name)
    os.chmod(beside, 0o600)
    listener.listen()
    inode = os.stat(beside).st_ino
    os.replace(beside, path)
    return inode


@contextlib.contextmanager
def socket_name(path: Path) -> Iterator[str]:
    """The same by its folder's descriptor on Linux: a socket's name has 107 bytes, a state directory may have more."""
    if sys.platform != "linux":
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect(path: Path) -> socket.socket | None:
    """A connection for `Guard.take` to the guard that listens there; None: there is none of this user."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(CONNECT_S)
    try:
        with socket_name(path) as name:
            connection.connect(name)
    except OSError:
        connection.close()
        return None
    if not is_same_user(connection):
        connection.close()
        return None
    return connection
