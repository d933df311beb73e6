"""Reads a model's files into the page cache before its server does, in steps that can be stopped at any time.

A block is requested before the last byte of the previous one is read: so two are in flight at most, a slow disk sets
the pace, and nothing is copied. The kernel limits each request to its read-ahead window, 128 KiB by default, so a block
is requested in such pieces. With a fast disk the kernel's work takes processor time from models in use, so it is
limited to a small share.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from typing import TYPE_CHECKING

from hotseat.model_servers.load_progress import weights
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hotseat.identifiers import Bytes, ModelName, Seconds

log = logging.getLogger(__name__)

PIECE: Bytes = 128 << 10
BLOCK: Bytes = 4 << 20
SHARE = 0.1
"""Of the processor time of all cores."""
IS_POSSIBLE = hasattr(os, "posix_fadvise")


class ModelsReadAhead:
    """One model at a time: two would be slower, and count the same memory twice."""

    def __init__(self, available: Callable[[], Bytes]) -> None:
        """`available` returns how much memory files may use now."""
        self._available = available
        self.in_progress: dict[ModelName, ReadingAhead] = {}
        """Also those that wait."""
        self._disk = asyncio.Lock()

    async def read(self, model: ModelName, argv: Sequence[str]) -> None:
        """Return when the files are read, or when it is stopped."""
        began = asyncio.get_running_loop().time()
        reading = self.in_progress[model] = ReadingAhead(argv, self._available)
        async with self._disk:
            await reading.run()
        took_s = asyncio.get_running_loop().time() - began
        log.info("read ahead model=%s size_mb=%d took_s=%.2f", model, reading.done // 10**6, took_s)

    def stop(self, model: ModelName) -> None:
        if reading := self.in_progress.pop(model, None):
            reading.stop()


class ReadingAhead:
    """Reads the files of one command line until all are read, memory is short, or it is stopped."""

    def __init__(self, argv: Sequence[str], available: Callable[[], Bytes]) -> None:
        """`available` returns how much memory files may use now."""
        self._argv, self._available = argv, available
        self._is_stopped = threading.Event()
        self.done: Bytes = 0
        """Bytes of the files in memory, or requested."""

    def stop(self) -> None:
        """The rest stays on disk. Safe to call twice, and from any thread."""
        self._is_stopped.set()

    async def run(self) -> None:
        """Return when no more will be read."""
        try:
            await in_thread("read ahead", self._read_all)
        finally:
            self.stop()

    def _read_all(self) -> None:
        if not IS_POSSIBLE:
            return
        self._pace = Pace(SHARE * cores())
        for file in weights(self._argv):
            try:
                self._read(file)
            except OSError:  # its server will report it
                return

    def _read(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            ask_for(file, 0, min(BLOCK, size))
            for start, end in blocks(size):
                if self._is_stopped.is_set() or self._available() < self.done + 2 * BLOCK:
                    return self.stop()
                ask_for(file, end, min(end + BLOCK, size))
                os.pread(file, 1, end - 1)
                self.done += end - start
                self._is_stopped.wait(self._pace.pause_s())
        finally:
            os.close(file)
        return None


class Pace:
    """Limits the calling thread to a share of one core."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._began, self._worked = time.monotonic(), time.thread_time()

    def pause_s(self) -> Seconds:
        """How long to pause now."""
        due_s = (time.thread_time() - self._worked) / self._share
        return max(0.0, due_s - (time.monotonic() - self._began))


def cores() -> int:
    return len(os.sched_getaffinity(0))


def blocks(size: Bytes) -> Iterator[tuple[Bytes, Bytes]]:
    """Start and end of each block of a file."""
    for start in range(0, size, BLOCK):
        yield start, min(start + BLOCK, size)


def ask_for(file: int, start: Bytes, end: Bytes) -> None:
    for piece in range(start, end, PIECE):
        os.posix_fadvise(file, piece, min(PIECE, end - piece), os.POSIX_FADV_WILLNEED)
