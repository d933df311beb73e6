"""Copies what servers write to our own standard output, line by line, without anything that could act on a terminal.

The work is done in a thread: a terminal that stands still stops nobody.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.upstreams.plain_text import plain_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.terms import ModelName

BEHIND = 64
"""Pieces that may wait; what comes after them is lost to the copy, not to the model's output."""

LAST_WORDS_S = 1.0

LONGEST_LINE = 16 << 10
"""Bytes; a longer line becomes several."""


def as_text(model: ModelName, line: str) -> str:
    return line


class Echo:
    def __init__(self, form: Callable[[ModelName, str], str] = as_text, fd: int = 1) -> None:
        self._form = form
        self._fd = fd
        self._unfinished: dict[ModelName, bytes] = {}
        self._waiting: queue.Queue[tuple[ModelName, bytes] | None] = queue.Queue(BEHIND)
        self._writer = threading.Thread(target=self._write, name="echo", daemon=True)
        self._writer.start()

    def __call__(self, model: ModelName, chunk: bytes) -> None:
        with suppress(queue.Full):
            self._waiting.put_nowait((model, chunk))

    def close(self) -> None:
        """Write what waits, if that takes no longer than a moment."""
        with suppress(queue.Full):
            self._waiting.put(None, timeout=LAST_WORDS_S)
        self._writer.join(LAST_WORDS_S)

    def _write(self) -> None:
        with suppress(OSError):  # nobody reads it any more
            while piece := self._waiting.get():
                chunk = self._lines(*piece)
                while chunk:
                    chunk = chunk[os.write(self._fd, chunk) :]

    def _lines(self, model: ModelName, chunk: bytes) -> bytes:
        """The lines that are complete by now: half of an escape sequence cannot be cleaned."""
        *complete, rest = (self._unfinished.pop(model, b"") + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            complete, rest = [*complete, rest], b""
        if rest:
            self._unfinished[model] = rest
        return "".join(f"{self._form(model, plain_line(line))}\n" for line in complete).encode()
