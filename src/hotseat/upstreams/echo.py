"""Copies what servers write to our own standard output, from a thread: a terminal that stands still stops nobody."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress

BEHIND = 64
"""Pieces that may wait; what comes after them is lost to the copy, not to the model's output."""

LAST_WORDS_S = 1.0


class Echo:
    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._waiting: queue.Queue[bytes] = queue.Queue(BEHIND)
        self._writer = threading.Thread(target=self._write, name="echo", daemon=True)
        self._writer.start()

    def __call__(self, chunk: bytes) -> None:
        if not chunk:  # nothing would be taken for the end
            return
        with suppress(queue.Full):
            self._waiting.put_nowait(chunk)

    def close(self) -> None:
        """Write what waits, if that takes no longer than a moment."""
        with suppress(queue.Full):
            self._waiting.put(b"", timeout=LAST_WORDS_S)
        self._writer.join(LAST_WORDS_S)

    def _write(self) -> None:
        with suppress(OSError):  # nobody reads it any more
            while chunk := self._waiting.get():
                while chunk:
                    chunk = chunk[os.write(self._fd, chunk) :]
