"""What the relay reports about a traced request: why it had to wait, when its first token came, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hotseat.tracing.span import TracedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Instant, ModelName, Seconds, TicketId
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.fleet_hop import FleetHop
    from hotseat.relay.exchange.request import Request
    from hotseat.tracing.traceparent import TraceContext
    from hotseat.tracing.tracer import Tracer


class Accounted(Protocol):
    """What is read of a request's accounting, which imports this module."""

    model: ModelName | None
    ticket: TicketId | None
    hop: FleetHop | None
    tokens: Tokens | None
    granted_at: Instant | None
    waited_for: str


LOOK_S: Seconds = 0.01
MOST_LOOKS = 100
"""A look for files takes a second at most."""


def note_wait(context: Context, tracer: Tracer, request: Request, model: ModelName) -> None:
    """It was not granted at once."""
    trace = request.trace_by(tracer)
    if trace.is_sampled:
        _note_reason(context, trace, model, MOST_LOOKS)


def _note_reason(context: Context, trace: TraceContext, model: ModelName, looks: int) -> None:
    """Again until the scheduler has heard of the request, which it does once the model's files are found."""
    trace.queued_because = context.dispatcher.views.why(model)
    if looks and not context.dispatcher.questions.requests(model):
        context.later(LOOK_S, lambda: _note_reason(context, trace, model, looks - 1))


class Relayed(Protocol):
    write: Callable[[bytes], None]


def note_first_token(context: Context, tracer: Tracer, request: Request, stream: Relayed, *, has_begun: bool) -> None:
    """Its response is a stream. Servers send the head at once, and the first data with the first token."""
    trace, write = request.trace_by(tracer), stream.write
    if has_begun:
        trace.first_token_at = context.now()
        return

    def write_first(data: bytes) -> None:
        trace.first_token_at = context.now()
        stream.write = write
        write(data)

    stream.write = write_first


def note_end(
    context: Context, tracer: Tracer, request: Request, accounting: Accounted, status: int, now: Instant
) -> None:
    """It still holds what it has: its ticket in the queue, its place at another host."""
    trace = request.trace_by(tracer)
    if trace.is_sampled and accounting.model is not None:
        reason = _reason(context, accounting, accounting.model)
        tracer.finished(_traced(trace, request, accounting, accounting.model, status, now, reason), now)


def _reason(context: Context, accounting: Accounted, model: ModelName) -> str:
    """What it has waited for, or still waits for."""
    ticket, dispatcher = accounting.ticket, context.dispatcher
    is_waiting = ticket is not None and dispatcher.questions.waits_for(ticket) is not None
    return dispatcher.views.why(model) if is_waiting else accounting.waited_for


def _traced(
    trace: TraceContext,
    request: Request,
    accounting: Accounted,
    model: ModelName,
    status: int,
    now: Instant,
    reason: str,
) -> TracedRequest:
    verdict, hop = request.verdict, accounting.hop
    return TracedRequest(
        trace=trace,
        id=request.id.decode(),
        model=model,
        method=request.head.method.decode(),
        path=request.destination.target.partition(b"?")[0].decode("latin-1"),
        status=status,
        began=request.began,
        granted_at=accounting.granted_at,
        ended=now,
        key="" if verdict.from_host else verdict.holder,
        tokens=accounting.tokens,
        reason=reason,
        sent_to_host=(hop.host if hop is not None else None) or "",
        from_host=verdict.from_host,
    )
