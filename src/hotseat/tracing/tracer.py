"""What the relay knows of tracing: where a request belongs, and that it has ended; and the queue to the collector.

Finished traces wait in a bounded queue: what does not fit is dropped and counted. No request waits for the collector.
What it does not take now is sent again, until there is no room for more.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import secrets
import ssl
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.tasks import forever
from hotseat.tracing.span import nanoseconds
from hotseat.tracing.traceparent import TraceContext, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.net.http_client import Answer
    from hotseat.tracing.collector import Collector
    from hotseat.tracing.span import TracedRequest
    from hotseat.tracing.swap_steps import Step, SwapSteps
    from hotseat.tracing.traceparent import Sampler

log = logging.getLogger(__name__)
TRACE_ID_BITS, SPAN_ID_BITS = 128, 64
MOST_WAITING: Bytes = 8 << 20
"""Some ten thousand traces."""
BATCH = 512
EVERY_S: Seconds = 1.0
AT_EXIT_S: Seconds = 2.0
"""How long the last traces may take when hotseat exits."""
BETWEEN_WARNINGS_S: Seconds = 60.0
LONGEST_PAUSE_S: Seconds = 300.0
"""If the collector asks for a longer one, nobody can tell it from one that is wrong."""
TYPE = b"Content-Type: application/x-protobuf\r\n"
GZIP = b"Content-Encoding: gzip\r\n"
LATER = frozenset((429, 502, 503, 504))
"""With these, a collector asks for the same traces again; any other refusal is final."""


class Tracer:
    def __init__(
        self, steps: SwapSteps, queue: TraceQueue, samples: Sampler, wall_clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._steps, self._queue, self._samples, self._wall_clock_ns = steps, queue, samples, wall_clock_ns

    @property
    def dropped(self) -> int:
        return self._queue.dropped

    def begin(self, traceparent: bytes | None) -> TraceContext:
        """A request that belongs to the trace of its client, or begins a new one."""
        parent = parse(traceparent)
        trace_id = new_id(TRACE_ID_BITS) if parent is None else parent.trace_id
        is_sampled = self._samples(trace_id, parent)
        return TraceContext(trace_id, parent, new_span_id(), new_span_id(), is_sampled)

    def finished(self, request: TracedRequest, now: Instant) -> None:
        """For recorded traces only. Nothing waits for the collector."""
        epoch_ns = self._wall_clock_ns() - nanoseconds(now)
        self._queue.put(request._replace(steps=self._steps_for(request), epoch_ns=epoch_ns))

    def _steps_for(self, request: TracedRequest) -> tuple[Step, ...]:
        if request.granted_at is not None and not request.reason:  # it did not wait
            return ()
        until = request.ended if request.granted_at is None else request.granted_at
        return tuple(self._steps.of_wait(request.model, request.began, until))


def new_id(bits: int) -> int:
    """Zero means that there is none."""
    return secrets.randbits(bits) or 1


def new_span_id() -> int:
    return new_id(SPAN_ID_BITS)


class TraceQueue:
    def __init__(
        self, collector: Collector, encode: Callable[[TracedRequest], bytes], clock: Callable[[], Instant]
    ) -> None:
        """ValueError: the file with the collector's authority cannot be used."""
        self._collector, self._encode, self._clock = collector, encode, clock
        self._connector, self._tls = Connector(), tls_of(collector)
        self._paused_until: Instant = float("-inf")
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
        await forever(self._send_unless_paused, "traces", EVERY_S)

    async def _send_unless_paused(self) -> None:
        if self._clock() >= self._paused_until:
            await self._send_all()

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
                answer = await self._send(b"".join(batch))
            except (OSError, ValueError) as problem:
                return self._warn(str(problem) or type(problem).__name__)
            if answer.status in LATER:
                pause = answer.fields.get("retry-after", "")[:9]
                self._paused_until = self._clock() + min(int(pause) if pause.isdecimal() else 0, LONGEST_PAUSE_S)
                return self._warn(f"it answered with status {answer.status}")
            self._remove(batch)
            if not answer.is_success:
                self.dropped += len(batch)
                self._warn(f"it answered with status {answer.status}")
        return None

    async def _send(self, body: bytes) -> Answer:
        to, lines = self._collector, TYPE + self._collector.lines
        if to.is_compressed:
            body, lines = await asyncio.to_thread(gzip.compress, body), lines + GZIP
        where = to.address, to.path
        return await fetch(
            *where, self._connector, method="POST", lines=lines, body=body, within=to.within_s, most=0, tls=self._tls
        )

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


def tls_of(collector: Collector) -> ssl.SSLContext | None:
    """None: as for every other server."""
    if collector.certificate is None:
        return None
    try:
        return ssl.create_default_context(cafile=collector.certificate)
    except OSError as problem:
        raise ValueError(f"OTEL_EXPORTER_OTLP_CERTIFICATE names no file with certificates ({problem})") from None
