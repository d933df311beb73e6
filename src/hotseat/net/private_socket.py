"""A unix socket that only our own user can connect to, since no key is checked behind it."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import tempfile
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


PREFIX = "hotseat-"
LOCK = "lock"
"""A file beside the socket that its process has locked. The kernel releases the lock however the process ends."""
MOST_LOOKED_AT = 10_000
"""Entries of the folder for temporary files, which may be full of those of others, so that no start takes long."""


@contextmanager
def private_socket(name: str) -> Iterator[socket.socket]:
    """It listens, so that clients can connect and wait until somebody answers; its folder is removed afterwards."""
    remove_leftovers(name)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as created,
        (Path(created) / LOCK).open("w") as lock,
        socket.socket(socket.AF_UNIX) as sock,
    ):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # without this file, nobody takes the folder for a leftover
            os.unlink(lock.name)
        with only_for_us():
            sock.bind(str(Path(created) / name))  # after the lock: a socket beside a free lock is a leftover
        sock.listen(socket.SOMAXCONN)
        yield sock


def remove_leftovers(name: str) -> None:
    """Remove the folders of our user whose process was killed."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in islice(entries, MOST_LOOKED_AT):
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # another user's, another process's, or one that another hotseat removes now
                    _remove_if_left(Path(entry.path), name)


def _remove_if_left(folder: Path, name: str) -> None:
    """OSError if its process lives, or if it is no folder of a private socket."""
    of_folder, of_socket = folder.lstat(), (folder / name).lstat()
    is_ours = of_folder.st_uid == of_socket.st_uid == os.geteuid()
    if not (is_ours and stat.S_ISDIR(of_folder.st_mode) and stat.S_ISSOCK(of_socket.st_mode)):
        return
    with (folder / LOCK).open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / name).unlink()
        (folder / LOCK).unlink()
        folder.rmdir()


@contextmanager
def only_for_us() -> Iterator[None]:
    """Files created inside the block have mode 0600. fchmod on a socket works only on Linux."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
