"""Finished traces on their way to the collector. Bounded: what does not fit is dropped and counted.

No request waits for the collector. What it does not take now is sent again, until there is no room for more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.tracing.collector import Collector
    from hotseat.tracing.request import TracedRequest

log = logging.getLogger(__name__)

MOST_WAITING: Bytes = 8 << 20
"""Some ten thousand traces."""
BATCH = 512
EVERY_S: Seconds = 1.0
AT_EXIT_S: Seconds = 2.0
"""How long the last traces may take when hotseat exits."""
BETWEEN_WARNINGS_S: Seconds = 60.0
TYPE = b"Content-Type: application/x-protobuf\r\n"
LATER = frozenset((429, 502, 503, 504))
"""With these, a collector asks for the same traces again; any other refusal is final."""


class TraceQueue:
    def __init__(
        self, collector: Collector, encode: Callable[[TracedRequest], bytes], clock: Callable[[], Instant]
    ) -> None:
        self._collector, self._encode, self._clock = collector, encode, clock
        self._connector = Connector()
        self._waiting: deque[bytes] = deque()
        self._size: Bytes = 0
        self._warned_at: Instant = float("-inf")
        self.dropped = 0

    def put(self, request: TracedRequest) -> None:
        trace = self._encode(request)
        if self._size + len(trace) > MOST_WAITING:
            self.dropped += 1
        else:
            self._size += len(trace)
            self._waiting.append(trace)

    async def run(self) -> None:
        await forever(self._send_all, "traces", EVERY_S)

    async def aclose(self) -> None:
        """Send what waits, as far as that is possible in a moment."""
        try:
            async with asyncio.timeout(AT_EXIT_S):
                await self._send_all()
        except TimeoutError:
            self._warn(f"no answer within {AT_EXIT_S:g} s while hotseat exits")

    async def _send_all(self) -> None:
        while batch := list(islice(self._waiting, BATCH)):
            try:
                status = await self._send(b"".join(batch))
            except (OSError, ValueError) as problem:
                return self._warn(str(problem) or type(problem).__name__)
            if status in LATER:
                return self._warn(f"it answered with status {status}")
            self._remove(batch)
            if not 200 <= status < 300:
                self.dropped += len(batch)
                self._warn(f"it answered with status {status}")
        return None

    async def _send(self, body: bytes) -> int:
        to = self._collector
        lines = TYPE + to.lines
        answer = await fetch(
            to.address, to.path, self._connector, method="POST", lines=lines, body=body, within=to.within_s, most=0
        )
        return answer.status

    def _remove(self, batch: list[bytes]) -> None:
        for trace in batch:
            self._size -= len(trace)
            self._waiting.popleft()

    def _warn(self, problem: str) -> None:
        if self._clock() - self._warned_at >= BETWEEN_WARNINGS_S:
            self._warned_at = self._clock()
            waiting, dropped = len(self._waiting), self.dropped
            form = "the collector does not take traces waiting=%d dropped=%d problem=%r"
            log.warning(form, waiting, dropped, problem)
