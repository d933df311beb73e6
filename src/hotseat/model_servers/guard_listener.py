"""Where a new hotseat reaches a guard whose owner is gone. Used by the guard: standard library only."""

from __future__ import annotations

import contextlib
import os
import socket
import struct


class Listener:
    """A socket that hotseat has bound, in a private folder."""

    def __init__(self, fd: int, path: str, inode: int) -> None:
        self._socket, self._path, self._inode = socket.socket(fileno=fd), path, inode
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> socket.socket | None:
        """A connection of a process of the same user; None: nobody waits. Other users are not answered."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                if is_same_user(connection):
                    return connection
                connection.close()
        return None

    @property
    def is_reachable(self) -> bool:
        """False: another hotseat has taken its name."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        if self.is_reachable:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._socket.close()


def is_same_user(connection: socket.socket) -> bool:
    """False also where the system does not say."""
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except (OSError, AttributeError):  # macOS has no SO_PEERCRED
        return False
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())
