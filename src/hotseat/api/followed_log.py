"""The log of another host while a client follows it: a feed that has ended is opened again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from contextlib import aclosing
from math import inf
from typing import TYPE_CHECKING

from hotseat.api.log_text import from_json
from hotseat.errors import HostUnresponsive
from hotseat.identifiers import LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from hotseat.api.deps import OtherHosts
    from hotseat.identifiers import HostName, Seconds

EVENT, COMMENT = b"data: ", b":"
AGAIN_S: Seconds = 1.0
"""Before a feed is opened again."""
MISSED = 1000
"""Lines that a feed begins with when it is opened again; those that were shown before are left out."""


class FollowedLog:
    def __init__(self, others: OtherHosts, host: HostName, path: Callable[..., str]) -> None:
        """`path` is that of so many last lines."""
        self._others, self._host, self._path = others, host, path
        self._shown = Shown()

    async def lines(self, lines: int) -> AsyncGenerator[LogLine, None]:
        """The last lines, then each new one, also after the host has restarted or was unreachable."""
        while True:
            try:
                async with aclosing(self._feed(lines)) as feed:
                    async for line in feed:
                        yield line
                await asyncio.sleep(AGAIN_S)
            except HostUnresponsive as problem:
                yield remark(self._host, f"{problem}; its log continues here when it is back")
                await self._come_back()
            except ValueError:
                why = "sent something that is not a log line, so its log is not followed any more"
                yield remark(self._host, f"{self._host} {why}")
                return
            lines = self._shown.begin_again(lines)

    async def _feed(self, lines: int) -> AsyncGenerator[LogLine, None]:
        """Until the host ends it, as before a restart."""
        async with aclosing(self._others.follow(self._host, self._path(lines, follow="true"))) as feed:
            async for text in feed:
                if text.startswith(EVENT):
                    line = from_json(text.removeprefix(EVENT))._replace(host=self._host)
                    if self._shown.is_new(line):
                        yield line
                elif text.startswith(COMMENT):  # a heartbeat, which comes after all old lines
                    self._shown.caught_up()

    async def _come_back(self) -> None:
        """Returns when the host answers such a question again."""
        while True:
            await asyncio.sleep(AGAIN_S)
            answers = await self._others.read_all([self._host], self._path(0), bytes)
            if not isinstance(answers[self._host], HostUnresponsive):
                return


class Shown:
    """The lines of a log that were shown last: a feed that is opened again begins with some of them.

    Times alone do not tell: while a host restarts, two of its processes write at the same time.
    """

    def __init__(self) -> None:
        self._last: deque[tuple[float, int]] = deque(maxlen=MISSED)
        """Time and hash: whole lines could need hundreds of megabytes."""
        self._since = -inf
        self._again: Counter[tuple[float, int]] = Counter()

    def begin_again(self, lines: int) -> int:
        """How many last lines the feed must begin with; `lines` if none was shown yet."""
        if not self._last:
            return lines
        self._since, self._again = min(at for at, _ in self._last), Counter(self._last)
        return MISSED

    def caught_up(self) -> None:
        """From now on all lines are new, also if the clock of the host was put back."""
        self._since, self._again = -inf, Counter()

    def is_new(self, line: LogLine) -> bool:
        if line.at < self._since:
            return False
        key = line.at, hash(line)
        if self._again[key]:
            self._again[key] -= 1
            return False
        self._last.append(key)
        return True


def remark(host: HostName, text: str) -> LogLine:
    return LogLine(time.time(), text, level="warning", host=host)
