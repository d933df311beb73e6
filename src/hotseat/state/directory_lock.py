"""A lock on the state directory, for files that several processes change.

The lock is on a file that only hotseat's user can open. Whoever may list a directory can lock the directory itself.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hotseat.identifiers import Seconds

LOCK = ".lock"
"""In the state directory; it is empty and stays, because a lock on a removed file excludes nobody."""
PAUSE: Seconds = 0.02


@contextmanager
def locked(directory: Path, longest_wait: Seconds = 0.0) -> Iterator[None]:
    """Only one process at a time is in the block; afterwards the names in the directory are on the disk.

    TimeoutError, which is an OSError, if another process still has the lock after `longest_wait`.
    """
    path = directory / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, longest_wait)
        yield
        _sync(directory)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, longest_wait: Seconds) -> None:
    until = time.monotonic() + longest_wait
    while not _is_taken(descriptor):
        if time.monotonic() >= until:
            raise TimeoutError(f"another process holds the lock {path}; try again, or find it with `fuser {path}`")
        time.sleep(PAUSE)


def _is_taken(descriptor: int) -> bool:
    """By us, now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
