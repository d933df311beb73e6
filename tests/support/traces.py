"""Finished requests as the relay reports them to a tracer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.identifiers import ModelName
from hotseat.tracing.span import TracedRequest
from hotseat.tracing.swap_steps import SwapSteps
from hotseat.tracing.traceparent import TraceContext, sampler_of
from hotseat.tracing.tracer import TraceQueue, Tracer

if TYPE_CHECKING:
    from hotseat.dispatch.journal import Journal
    from hotseat.tracing.traceparent import Parent

ROOT, FORWARD = 1, 2


def traced(
    parent: Parent | None = None, queued_because: str = "", first_token_at: float | None = 103.5, **known: Any
) -> TracedRequest:
    """It arrived at 100, was granted at 103, got its first token at 103.5 and ended at 105, unless `known` says so."""
    usual: dict[str, Any] = {
        "trace": TraceContext(7, parent, ROOT, FORWARD, True, queued_because, first_token_at),
        "id": "box-7",
        "model": ModelName("beta"),
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "began": 100.0,
        "granted_at": 103.0,
        "ended": 105.0,
    }
    return TracedRequest(**{**usual, **known})


class KeptTraces(TraceQueue):
    """Keeps what would be exported."""

    def __init__(self) -> None:
        self.requests: list[TracedRequest] = []

    def put(self, request: TracedRequest) -> None:
        self.requests.append(request)


def tracer_into(queue: TraceQueue, journal: Journal, clock: Any) -> Tracer:
    steps = SwapSteps(clock)
    journal.listen(steps.watch)
    return Tracer(steps, queue, sampler_of("", ""))
