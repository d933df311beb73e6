"""PURE: what a trace says about a finished request: times, figures and reasons, never content; and its spans.

Names and attributes follow OpenTelemetry's conventions for generative AI and HTTP; those of hotseat's own begin with
`hotseat.`. docs/howto/tracing.md lists them.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.activity.recent import Tokens
    from hotseat.identifiers import Instant, ModelName
    from hotseat.tracing.swap_steps import Step
    from hotseat.tracing.traceparent import TraceContext

Value: TypeAlias = "str | int | Sequence[str]"
OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
"""The conventions have no name for other operations, such as rerank."""
SUCCESS = range(200, 300)
NOTHING: Final[Mapping[str, Value]] = MappingProxyType({})


class TracedRequest(NamedTuple):
    trace: TraceContext
    id: str
    model: ModelName
    method: str
    path: str
    """As the model server gets it, without its query."""
    status: int
    """Sent to the client; 499 if it disconnected, 0 if no response began."""
    began: Instant
    granted_at: Instant | None
    """None: it was never sent to a server."""
    ended: Instant
    key: str = ""
    """The name of the client's API key."""
    tokens: Tokens | None = None
    reason: str = ""
    """What it waited for."""
    sent_to_host: str = ""
    """The fleet host that served it."""
    from_host: str = ""
    """The fleet host that forwarded it here."""
    steps: tuple[Step, ...] = ()
    """What was done for its model while it waited."""
    epoch_ns: int = 0
    """Wall-clock time when the clock of all other times was 0."""


class Kind(Enum):
    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


class Span(NamedTuple):
    name: str
    id: int
    parent_id: int
    """0: the trace begins with this span."""
    began: Instant
    ended: Instant
    kind: Kind = Kind.INTERNAL
    attributes: Mapping[str, Value] = NOTHING
    events: tuple[tuple[str, Instant], ...] = ()
    has_failed: bool = False


def spans_of(request: TracedRequest, new_id: Callable[[], int]) -> list[Span]:
    """The whole request first, then what it consists of."""
    return [_root(request), *_queue(request, new_id), *_swap(request, new_id), *_forward(request)]


def _root(request: TracedRequest) -> Span:
    trace = request.trace
    operation = OPERATIONS.get(request.path)
    return Span(
        name=f"{operation or request.method} {request.model}",
        id=trace.root_id,
        parent_id=0 if trace.parent is None else trace.parent.span_id,
        began=request.began,
        ended=request.ended,
        kind=Kind.SERVER,
        attributes=_given({"gen_ai.operation.name": operation or "", **_about(request), **_usage(request.tokens)}),
        has_failed=_has_failed(request),
    )


def _about(request: TracedRequest) -> dict[str, Value]:
    return {
        "gen_ai.provider.name": "hotseat",
        "gen_ai.request.model": request.model,
        "gen_ai.response.model": request.model if request.status in SUCCESS else "",
        "http.request.method": request.method,
        "http.response.status_code": request.status or "",
        "error.type": str(request.status or "no_response") if _has_failed(request) else "",
        "hotseat.request.id": request.id,
        "hotseat.key": request.key,
        "hotseat.from_host": request.from_host,
    }


def _has_failed(request: TracedRequest) -> bool:
    """A client's own errors are no failures of this server, as the conventions for HTTP say."""
    return request.status == 0 or request.status >= 500


def _usage(tokens: Tokens | None) -> dict[str, Value]:
    if tokens is None:
        return {}
    used = {"input_tokens": tokens.prompt, "output_tokens": tokens.completion, "cache_read.input_tokens": tokens.cached}
    return {f"gen_ai.usage.{name}": count for name, count in used.items() if count is not None}


def _given(attributes: dict[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in attributes.items() if value != ""}


def _queue(request: TracedRequest, new_id: Callable[[], int]) -> Iterator[Span]:
    """Nothing for a request that was granted at once."""
    until = _waited_until(request)
    if request.granted_at is None or request.reason or until > request.began:
        reasons = {"hotseat.reason_at_first": request.trace.queued_because, "hotseat.reason": request.reason}
        yield Span("queue", new_id(), request.trace.root_id, request.began, until, attributes=_given({**reasons}))


def _waited_until(request: TracedRequest) -> Instant:
    return request.ended if request.granted_at is None else request.granted_at


def _swap(request: TracedRequest, new_id: Callable[[], int]) -> Iterator[Span]:
    """Its steps may have begun before the request, which then waited for the rest of them."""
    if not request.steps:
        return
    began, ended = min(step.began for step in request.steps), max(step.ended for step in request.steps)
    evicted = tuple(step.model for step in request.steps if step.name == "drain")
    attributes: dict[str, Value] = {"hotseat.evicted": evicted} if evicted else {}
    swap = Span("swap", new_id(), request.trace.root_id, began, ended, attributes=attributes)
    yield swap
    yield from (_step(step, swap, new_id()) for step in request.steps)


def _step(step: Step, swap: Span, step_id: int) -> Span:
    attributes = {"hotseat.model": step.model, "hotseat.reason": step.reason}
    return Span(step.name, step_id, swap.id, step.began, step.ended, attributes=attributes, has_failed=step.has_failed)


def _forward(request: TracedRequest) -> Iterator[Span]:
    if request.granted_at is None:
        return
    first = request.trace.first_token_at
    yield Span(
        name="forward",
        id=request.trace.forward_id,
        parent_id=request.trace.root_id,
        began=request.granted_at,
        ended=request.ended,
        kind=Kind.CLIENT,
        attributes=_given({"hotseat.to_host": request.sent_to_host}),
        events=() if first is None else (("first token", first),),
        has_failed=_has_failed(request),
    )


def nanoseconds(at: Instant) -> int:
    return round(at * 1_000_000_000)
