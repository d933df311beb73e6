"""A response that begins before its model is ready: a streaming client repeatedly receives the reason for the wait.

It commits to a 200 status, so it is off by default (`sendLoadingState`) and begins only after a grace period. Later
failures are reported as an error event and a visible cut. The relay frames the body itself, since the upstream's head
comes too late.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from hotseat.catalog.spec import LoadingState
from hotseat.error_bodies import encodable, one_line, passed_on_error, stream_error
from hotseat.relay.exchange.exchange import QUEUED, Queued
from hotseat.relay.exchange.framers import Rechunk, chunk
from hotseat.relay.http.forwarded_head import response_bytes
from hotseat.relay.http.response_head import BodyEnd, read_response_head
from hotseat.relay.routing.paths import dialect_for

if TYPE_CHECKING:
    import asyncio

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.exchange.request import Request
    from hotseat.relay.http.response_head import ResponseHead

GRACE_S: Seconds = 2.0
"""How long a request waits silently: quick loads and quick errors keep their own status."""
EVERY_S: Seconds = 5.0
"""Between two progress messages: well below the read timeout of any client or proxy."""

CHATS = frozenset((b"/v1/chat/completions", b"/chat/completions"))
EVENT_STREAMS = CHATS.union(
    (b"/v1/completions", b"/v1/responses", b"/v1/messages", b"/completions", b"/completion", b"/infill")
)
"""Paths where `stream` means server-sent events. Elsewhere it may mean audio or lines of JSON."""

HEAD, _ = read_response_head(
    200,
    b"OK",
    [(b"Content-Type", b"text/event-stream"), (b"Cache-Control", b"no-cache"), (b"Transfer-Encoding", b"chunked")],
)
MOST_KEPT: Bytes = 64 << 10
"""Of a response that is reported instead of forwarded."""
LONGEST_SHOWN = 500
BAD_GATEWAY = 502


def begin_after_grace(exchange: Exchange, spec: ModelSpec) -> None:
    """Begin the response after the grace period, unless the model is ready in time."""
    exchange.state = Queued(exchange.context.later(GRACE_S, exchange.run, _begin, exchange, spec))


def _begin(exchange: Exchange, spec: ModelSpec) -> None:
    exchange.state = QUEUED
    if can_begin_early(exchange.request):
        early = exchange.framer = EarlyStream(exchange, spec)
        early.begin()
        exchange.request.ask_for_plain()


class _Asked(msgspec.Struct, gc=False):
    stream: bool = False


_read_asked = msgspec.json.Decoder(_Asked).decode


def can_begin_early(request: Request) -> bool:
    """Is the successful response to this request a chunked event stream?"""
    head = request.head
    if request.translation is not None:  # its client expects lines of JSON
        return False
    if head.method != b"POST" or head.http10 or _path(request) not in EVENT_STREAMS or request.body.is_spooled:
        return False
    try:
        return _read_asked(request.body.whole()).stream
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def can_continue(head: ResponseHead) -> bool:
    """Can the upstream's response continue an event stream that began without it?"""
    is_plain = b"content-encoding" not in head.known
    return 200 <= head.status < 300 and head.is_event_stream and is_plain and head.body_end is not BodyEnd.HEAD


class EarlyStream(Rechunk):
    """The framer of a response that began before its model was ready."""

    __slots__ = ("_exchange", "_goes_on", "_kept", "_spec", "_theirs", "_timer")

    def __init__(self, exchange: Exchange, spec: ModelSpec) -> None:
        keep_alive = exchange.request.head.keep_alive and not exchange.context.is_draining
        super().__init__(exchange.client, HEAD, keep_alive=keep_alive)
        self._exchange = exchange
        self._spec = spec
        self._timer: asyncio.TimerHandle
        self._theirs = HEAD
        """The upstream's head, once it is there."""
        self._goes_on = False
        self._kept = b""

    def begin(self) -> None:
        context, request = self._exchange.context, self._exchange.request
        cors, ours = context.policy.cors.lines(request.head), [b"X-Request-Id: %b" % request.id]
        close = not self._keep_alive
        self._client.write(
            response_bytes(HEAD, None, cors, dechunk=False, close=close, http10=False, confine=True, ours=ours)
        )
        self._show_life()

    def stop(self) -> None:
        """Send no more progress messages."""
        self._timer.cancel()

    # Progress messages

    def _show_life(self) -> None:
        self._timer = self._exchange.context.later(EVERY_S, self._show_life)
        if not self._client.is_full:  # a client that does not read would find hundreds of them later
            self._say(self._sign())

    def _say(self, data: bytes) -> None:
        self._client.write(chunk(data))

    def _sign(self) -> bytes:
        """In the format for this client: only chats have a field for reasoning."""
        exchange, model = self._exchange, self._spec.name
        if exchange.upstream is None:
            why = encodable(" ".join(exchange.context.dispatcher.views.why(model).split()))
        else:
            why = "it has received the request and has not responded yet"
        as_reasoning = self._spec.loading_state is LoadingState.REASONING and _path(exchange.request) in CHATS
        return reasoning(model, why) if as_reasoning else comment(model, why)

    # The upstream's response

    @property
    def status(self) -> int:
        return self._theirs.status if self._goes_on or self._theirs.status >= 400 else BAD_GATEWAY

    def continued(self, head: ResponseHead, data: bytes) -> bytes:
        """The upstream's response is there; returns what the client gets of its first part."""
        self._theirs = head
        self._goes_on = can_continue(head)
        return self.framed(data)

    def framed(self, data: bytes) -> bytes:
        if data and self._goes_on:
            self.stop()
            return chunk(data)
        self._kept = (self._kept + data)[:MOST_KEPT]
        return b""

    def end(self, now: Instant) -> None:
        self.stop()
        if self._goes_on:
            return super().end(now)
        # The blank line ends an unfinished event; the missing last chunk shows that the response is incomplete.
        return self._client.cut(chunk(b"\n\n" + self._unfit()), looks_complete=False)

    def _unfit(self) -> bytes:
        """The upstream's own error if there is one, else what it sent instead of a stream."""
        head, exchange = self._theirs, self._exchange
        dialect = dialect_for(exchange.request.head, exchange.context.policy.error_format)
        if head.status >= 400 and (event := passed_on_error(self._kept, dialect)):
            return event
        kind = head.known.get(b"content-type", b"no content type").decode("latin-1")
        said = one_line(self._kept.decode("utf-8", "replace"), LONGEST_SHOWN)
        message = f"{self._spec.name} responded {head.status} with {kind} instead of an event stream: {said}"
        return stream_error(message, "upstream_failed", dialect)


def _path(request: Request) -> bytes:
    return request.destination.target.partition(b"?")[0]


def comment(model: str, why: str) -> bytes:
    return f": {model}: {why}\n\n".encode()


def reasoning(model: str, why: str) -> bytes:
    # Without a role: the model's own first chunk has one, and some clients concatenate them.
    choice = {"index": 0, "delta": {"reasoning_content": f"{model}: {why}\n"}, "finish_reason": None}
    piece = {"id": "chatcmpl-hotseat", "object": "chat.completion.chunk", "created": int(time.time())}
    return b"data: %b\n\n" % msgspec.json.encode({**piece, "model": model, "choices": [choice]})
