"""Catches a process at the moment when it uses a file: the kernel reports when a file is opened, or delays it.

A process that creates a file is stopped as soon as that is reported, which may be too late. One that opens a file that
exists has to wait until whoever holds a lease on the file gives it up.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import select
import signal
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Self

from tests.support.processes import proc_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

IN_OPEN = 0x20
LARGEST_READ = 1 << 16
LOOK_S = 0.0005
STOPS_WITHIN_S = 0.5
STOPPED = b"T"
LEASE_LOOK_S = 0.005

libc = ctypes.CDLL(None, use_errno=True)


class OpenedFiles:
    """Watches a folder from its construction on, so that no moment is missed; OSError if there is no such folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inotify = checked(libc.inotify_init1(os.O_CLOEXEC))
        try:
            checked(libc.inotify_add_watch(self._inotify, bytes(folder), IN_OPEN))
        except OSError:
            os.close(self._inotify)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._inotify)

    def stops(self, pid: int, suffix: str, within_s: float) -> bool:
        """Stop the process when such a file is opened. False: none was, or the process had closed it by then."""
        if not self._is_opened(suffix.encode(), within_s):
            return False
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            if is_stopped(pid) and any(name.endswith(suffix) for name in self._open_in(pid)):
                return True
            os.kill(pid, signal.SIGCONT)
        return False

    def _is_opened(self, suffix: bytes, within_s: float) -> bool:
        until = time.monotonic() + within_s
        while select.select([self._inotify], [], [], max(until - time.monotonic(), 0.0))[0]:
            if suffix in os.read(self._inotify, LARGEST_READ):
                return True
        return False

    def _open_in(self, pid: int) -> list[str]:
        paths = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
        return [path for path in paths if path.startswith(f"{self._folder}/")]


class HeldFiles:
    """Whoever opens one of them waits until this is left; OSError if somebody has one of them open."""

    def __init__(self, paths: Iterable[Path]) -> None:
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # it tells that somebody waits, and would end this process
        self._held: list[int] = []
        with ExitStack() as failed:
            failed.callback(self.release)
            for path in paths:
                self._held.append(os.open(path, os.O_RDWR))
                fcntl.fcntl(self._held[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
            failed.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        while self._held:
            os.close(self._held.pop())

    async def is_wanted(self, within_s: float) -> bool:
        """Wait until somebody waits for one of them; False if nobody does."""
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if any(fcntl.fcntl(file, fcntl.F_GETLEASE) != fcntl.F_WRLCK for file in self._held):
                return True
            await asyncio.sleep(LEASE_LOOK_S)
        return False


def is_stopped(pid: int) -> bool:
    """All its threads, which takes a moment after the signal."""
    until = time.monotonic() + STOPS_WITHIN_S
    while time.monotonic() < until:
        if all(state_of(int(thread)) == STOPPED for thread in os.listdir(f"/proc/{pid}/task")):
            return True
        time.sleep(LOOK_S)
    return False


def state_of(pid: int) -> bytes:
    return proc_file(pid, "stat").rpartition(b") ")[2][:1]


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
