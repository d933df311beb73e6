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
from hotseat.relay.exchange.framers import LAST, chunk
from hotseat.relay.http.forwarded_head import response_bytes
from hotseat.relay.http.response_head import BodyEnd, read_response_head

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hotseat.catalog.spec import ModelSpec
    from hotseat.error_bodies import Dialect
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.exchange.client_side import Client
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


def after_grace(context: Context, begin: Callable[[], None]) -> asyncio.TimerHandle:
    """Begin the response after the grace period; the caller cancels this if the model is ready in time."""
    return context.later(GRACE_S, begin)


class _Asked(msgspec.Struct, gc=False):
    stream: bool = False


_read_asked = msgspec.json.Decoder(_Asked).decode


def can_begin_early(request: Request) -> bool:
    """Is the successful response to this request a chunked event stream?"""
    path = request.destination.target.partition(b"?")[0]
    if request.head.method != b"POST" or request.head.http10 or path not in EVENT_STREAMS or request.body.is_spooled:
        return False
    try:
        return _read_asked(request.body.whole()).stream
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def can_continue(head: ResponseHead) -> bool:
    """Can the upstream's response continue an event stream that began without it?"""
    is_plain = b"content-encoding" not in head.known
    return 200 <= head.status < 300 and head.is_event_stream and is_plain and head.body_end is not BodyEnd.HEAD


class EarlyStream:
    """The framer of a response that began before its model was ready."""

    __slots__ = (
        "_client",
        "_dialect",
        "_goes_on",
        "_head",
        "_id",
        "_keep_alive",
        "_kept",
        "_later",
        "_sign",
        "_timer",
        "_who",
        "_why",
    )

    def __init__(
        self, context: Context, client: Client, request: Request, spec: ModelSpec, why: Callable[[], str]
    ) -> None:
        self._client = client
        self._dialect = request.dialect(context.policy.error_format)
        self._id = request.id
        self._sign = sign_for(spec, request)
        self._who = spec.name
        self._why = why
        self._later = context.later
        self._timer: asyncio.TimerHandle
        self._head: ResponseHead | None = None
        self._goes_on = False
        self._kept = b""

    def begin(self, cors: list[bytes], *, keep_alive: bool) -> None:
        self._keep_alive = keep_alive
        ours = [b"X-Request-Id: %b" % self._id]
        head = response_bytes(
            HEAD, None, cors, dechunk=False, close=not keep_alive, http10=False, confine=True, ours=ours
        )
        self._client.write(head)
        self._show_life()

    def stop(self) -> None:
        """Send no more progress messages."""
        self._timer.cancel()

    def _show_life(self) -> None:
        self._timer = self._later(EVERY_S, self._show_life)
        if not self._client.is_full:  # a client that does not read would find hundreds of them later
            self._say(self._sign(self._why()))

    def _say(self, data: bytes) -> None:
        self._client.write(chunk(data))

    # Called by the exchange

    @property
    def status(self) -> int:
        """The status for logs and metrics."""
        assert self._head is not None
        return self._head.status if self._goes_on or self._head.status >= 400 else BAD_GATEWAY

    def framed(self, data: bytes) -> bytes:
        return chunk(data) if data else b""

    def head_received(self, head: ResponseHead) -> None:
        self._head = head
        self._goes_on = can_continue(head)

    def write(self, data: bytes) -> None:
        """The next part of the upstream's body, unframed."""
        if not data:
            return
        if self._goes_on:
            self.stop()
            self._say(data)
        else:
            self._kept = (self._kept + data)[:MOST_KEPT]

    def end(self, now: Instant) -> None:
        self.stop()
        if not self._goes_on:
            return self._cut(self._unfit())
        self._client.write(LAST)
        return self._client.exchange_ended(keep_alive=self._keep_alive, now=now)

    def cut(self, error: HotseatError, dialect: Dialect) -> None:
        self.stop()
        self._cut(stream_error(error.message, error.code, dialect))

    def _cut(self, event: bytes) -> None:
        # The blank line ends an unfinished event; the missing last chunk shows that the response is incomplete.
        self._client.cut(chunk(b"\n\n" + event), looks_complete=False)

    def _unfit(self) -> bytes:
        """The upstream's own error if there is one, else what it sent instead of a stream."""
        assert self._head is not None
        head = self._head
        if head.status >= 400 and (event := passed_on_error(self._kept, self._dialect)):
            return event
        kind = head.known.get(b"content-type", b"no content type").decode("latin-1")
        said = one_line(self._kept.decode("utf-8", "replace"), LONGEST_SHOWN)
        told = f"{self._who} responded {head.status} with {kind} instead of an event stream: {said}"
        return stream_error(told, "upstream_failed", self._dialect)


# Progress messages


def sign_for(spec: ModelSpec, request: Request) -> Callable[[str], bytes]:
    """The format of progress messages for this client; only chats have a field for reasoning."""
    is_chat = request.destination.target.partition(b"?")[0] in CHATS
    as_reasoning = spec.loading_state is LoadingState.REASONING and is_chat
    make = reasoning if as_reasoning else comment
    return lambda why: make(spec.name, encodable(" ".join(why.split())))


def comment(model: str, why: str) -> bytes:
    return f": {model}: {why}\n\n".encode()


def reasoning(model: str, why: str) -> bytes:
    # Without a role: the model's own first chunk has one, and some clients concatenate them.
    choice = {"index": 0, "delta": {"reasoning_content": f"{model}: {why}\n"}, "finish_reason": None}
    piece = {"id": "chatcmpl-hotseat", "object": "chat.completion.chunk", "created": int(time.time())}
    return b"data: %b\n\n" % msgspec.json.encode({**piece, "model": model, "choices": [choice]})
