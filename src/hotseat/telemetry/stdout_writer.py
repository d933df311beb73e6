"""The only writer to standard output while hotseat serves: a bounded queue and a thread.

A pipe that nobody reads or a paused terminal blocks the thread alone. Lines that find the queue full are dropped and
counted, and one line reports them once the rest is written.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from typing import TYPE_CHECKING

from hotseat.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes, Seconds

log = logging.getLogger(__name__)

LINES_LIMIT: Bytes = 4 << 20
COPY_LIMIT: Bytes = 2 << 20
"""Total queued bytes above which copies of server output are dropped: they must not displace our own lines."""

LAST_WORDS_S: Seconds = 1.0


class StdoutWriter:
    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._queue: deque[tuple[Callable[[], bytes], Bytes]] = deque()
        self._queued: Bytes = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_dropping = False
        """From the first dropped line until the queue is empty: then one notice reports all of them."""
        self._unreported_lines = 0
        self._unreported_bytes: Bytes = 0
        self.lines_dropped = 0
        """Since the start."""
        self._thread = start_thread("stdout", self._run)

    # From any thread; never blocks

    def put_line(self, line: str) -> None:
        """Write a line of our own log, or count it as dropped."""
        data = f"{line}\n".encode("utf-8", "replace")
        with self._changed:
            self._is_dropping = self._is_dropping or self._queued + len(data) > LINES_LIMIT
            if self._is_dropping:
                self.lines_dropped += 1
                self._unreported_lines += 1
            else:
                self._enqueue(lambda: data, len(data))

    def put_copy(self, make: Callable[[], bytes], size: Bytes) -> None:
        """Write the result of `make`, which the thread calls; `size` is about how large it is."""
        with self._changed:
            if self._queued + size > COPY_LIMIT:
                self._unreported_bytes += size
            else:
                self._enqueue(make, size)

    def close(self) -> None:
        """Write what is queued, if that takes only a moment."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(LAST_WORDS_S)

    def _enqueue(self, make: Callable[[], bytes], size: Bytes) -> None:
        self._queue.append((make, size))
        self._queued += size
        self._changed.notify()

    # In the thread

    def _run(self) -> None:
        while make := self._next():
            try:
                write_all(self._fd, make())
            except Exception:  # concerns one item: the next can still be written
                log.exception("a line could not be written")

    def _next(self) -> Callable[[], bytes] | None:
        """The next item, once there is one; None at the end."""
        while True:
            with self._changed:
                if self._queue:
                    make, size = self._queue.popleft()
                    self._queued -= size
                    return make
                lines, copied = self._unreported_lines, self._unreported_bytes
                self._unreported_lines = self._unreported_bytes = 0
                self._is_dropping = False
                if not (lines or copied):
                    if self._is_closing:
                        return None
                    self._changed.wait()
            report(lines, copied)


def report(lines: int, copied: Bytes) -> None:
    if lines:
        log.warning("log lines were dropped because the output was not read lines=%d", lines)
    if copied:
        log.warning("output of model servers was dropped because the output was not read bytes=%d", copied)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it; stop silently if there is no reader any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:  # the parent process made the descriptor non-blocking
            select.select([], [fd], [])
        except OSError:
            return
