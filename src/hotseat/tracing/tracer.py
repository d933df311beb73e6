"""What the relay knows of tracing: where a request belongs, and that it has ended."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from hotseat.tracing.span import nanoseconds
from hotseat.tracing.traceparent import TraceContext, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Instant
    from hotseat.tracing.request import TracedRequest
    from hotseat.tracing.sampling import Sampler
    from hotseat.tracing.swap_steps import Step, SwapSteps
    from hotseat.tracing.trace_queue import TraceQueue

TRACE_ID_BITS, SPAN_ID_BITS = 128, 64


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
