"""The last lines of hotseat's own log, in memory, whatever goes to standard output.

A logging handler: it takes records from any thread and never waits. Followers only have a position in what was written,
so a slow one costs nothing and misses lines.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from hotseat.identifiers import LogLine
from hotseat.telemetry.json_lines import in_unicode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

KEPT = 2000
SKIPPED = "(some lines were skipped here)"


class RecentLines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._warnings: deque[LogLine] = deque(maxlen=KEPT)
        """And errors: clients can cause any number of other lines, which push out none of these."""
        self._written = 0
        """Lines since the start."""
        self._followers: list[Follower] = []
        self._changing = threading.RLock()  # reentrant: the garbage collector may log at any time

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record; a stack trace is several lines."""
        try:
            texts = in_unicode(self.format(record)).split("\n")
        except Exception:
            return self.handleError(record)
        lines = [LogLine(record.created, text, level=record.levelname.lower()) for text in texts]
        with self._changing:
            self._lines.extend(lines)
            self._warnings.extend(lines if record.levelno >= logging.WARNING else ())
            self._written += len(lines)
            for follower in self._followers:
                follower.wake()
        return None

    def newest(self, lines: int) -> Iterator[LogLine]:
        """Newest first."""
        with self._changing:
            kept = [*self._lines]
            older = [line for line in self._warnings if line.at < kept[0].at]
        return islice(reversed(older + kept), lines)

    async def follow(self) -> AsyncGenerator[LogLine, None]:
        """New lines as they are written. A slow reader misses some and sees a note."""
        follower = Follower()
        with self._changing:
            self._followers.append(follower)
            position = self._written
        try:
            while True:
                lines, position = self._since(position)
                for line in lines:
                    yield line
                if not lines:
                    await follower.woken()
        finally:
            with self._changing:
                self._followers.remove(follower)

    def _since(self, position: int) -> tuple[list[LogLine], int]:
        """The lines after a position, and the position after them."""
        with self._changing:
            kept, written = [*self._lines], self._written
        unread = written - position
        if unread <= len(kept):
            return kept[len(kept) - unread :], written
        return [kept[0]._replace(text=SKIPPED), *kept[1:]], written


class Follower:
    """Wakes its event loop from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._news.set)

    async def woken(self) -> None:
        await self._news.wait()
        self._news.clear()
