"""The last lines of hotseat's own log, in memory, whatever goes to standard output.

A logging handler: it takes records from any thread and never waits. Followers only have a position in what was written,
so a slow one costs nothing and misses lines.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from hotseat.identifiers import LogLine
from hotseat.telemetry.logs import in_unicode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from types import CodeType

KEPT = 2000
MOST_TRACES = 3
"""From one function in a minute, among the warnings."""
SKIPPED = "(some lines were skipped here)"


class RecentLines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._warnings: deque[LogLine] = deque(maxlen=KEPT)
        """And errors: clients can cause any number of other lines, which push out none of these."""
        self._minute = 0
        self._traced: Counter[CodeType] = Counter()
        """Where the stack traces of this minute began: a bug that every request meets writes one for each."""
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
            self._warnings.extend(lines if self._is_kept(record) else ())
            self._written += len(lines)
            for follower in self._followers:
                follower.wake()
        return None

    def _is_kept(self, record: logging.LogRecord) -> bool:
        """Among the warnings."""
        if record.levelno < logging.WARNING or not record.exc_info or record.exc_info[2] is None:
            return record.levelno >= logging.WARNING
        if (minute := int(record.created // 60)) != self._minute:
            self._minute = minute
            self._traced.clear()
        *_, (frame, _) = traceback.walk_tb(record.exc_info[2])
        self._traced[frame.f_code] += 1
        return self._traced[frame.f_code] <= MOST_TRACES

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
