"""One client connection: serves its requests in order and notices when the client disconnects.

While a request is being served, further input goes to a small buffer instead of pausing the transport: a paused
transport reports neither EOF nor loss of its connection, and a disconnect must be seen within milliseconds. A client
that overflows the buffer gets the responses to what was read, then the connection closes. Only websockets are paused,
for an upstream that takes no more; the relay asks the kernel whether those clients have disconnected. As in nginx, a
FIN after a complete request is a disconnect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from hotseat.error_bodies import Dialect, answer
from hotseat.errors import Busy, HotseatError, TooSlow
from hotseat.relay.access.host_requests import refusal_for_host
from hotseat.relay.downstream.connection_count import host_of
from hotseat.relay.downstream.request_reader import BETWEEN, LOST, Reading, RequestReader
from hotseat.relay.exchange.exchange import Exchange
from hotseat.relay.exchange.request import Request, dialect_for
from hotseat.relay.http.request_id import id_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.activity.recent import InProgress
    from hotseat.identifiers import Bytes, Instant, ModelName, Seconds
    from hotseat.relay.downstream.connection_count import Excess
    from hotseat.relay.http.head import RequestHead
    from hotseat.relay.server import Relay

NEVER: Instant = float("inf")
MOST_AHEAD: Bytes = 64 << 10
"""Limit of buffered pipelined requests; beyond it nothing more is read from the client."""
FAREWELL_S: Seconds = 1.0
"""How long a fleet host may still send on a connection that we close, until it notices."""
LINGER_S: Seconds = 2.0
"""How long a refused client may go on sending before we close: an immediate close could destroy the response."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Stage(Enum):
    OPEN = "open"
    TUNNEL = "tunnel"
    DISCARDING = "discarding"
    """The last response is sent, and we wait for the client to close."""
    CLOSED = "closed"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
OPEN: Final = Stage.OPEN
TUNNEL: Final = Stage.TUNNEL
DISCARDING: Final = Stage.DISCARDING
CLOSED: Final = Stage.CLOSED


@dataclass(frozen=True, slots=True)
class Reply:
    """Our own response to a request that is not forwarded; sent in order like any other."""

    data: bytes
    keep_alive: bool


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_ahead",
        "_buffered_at_check",
        "_exchange",
        "_is_advancing",
        "_is_full",
        "_is_host",
        "_queue",
        "_reader",
        "_relay",
        "_stage",
        "_transport",
        "deadline",
        "peer",
        "write",
    )

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport
        self._stage = OPEN
        self.peer = ""
        self._reader: RequestReader
        self._queue: deque[Request | Reply] = deque()
        self._exchange: Exchange | None = None
        self._ahead = b""
        self._is_advancing = False
        self._is_host = False
        self._is_full = False
        self._buffered_at_check = 0
        self.deadline: Instant = NEVER

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write: Callable[[bytes], None] = self._transport.write
        self.peer = host_of(transport.get_extra_info("peername"))
        self._reader = RequestReader(self._relay, self, self.peer)
        if excess := self._join():
            return self._refuse_connection(excess)
        self._expect_within(self._relay.rules.limits.header_timeout_s)
        # Accepted just as the shutdown began.
        return self.drain() if self._relay.is_draining else None

    def _join(self) -> Excess | None:
        return self._relay.join(self)

    def data_received(self, data: bytes) -> None:
        if self._exchange is None and self._stage is OPEN and not self._is_full:
            self._ahead = self._reader.feed(data)
            if self._exchange is None or self._ahead:
                self._advance()
        elif self._stage is TUNNEL and self._exchange is not None:
            self._exchange.from_client(data)
        elif self._stage is not DISCARDING:
            self._keep_for_later(data)

    def eof_received(self) -> None:
        """A disconnect. The transport would report the loss only after the client had read all that was written."""
        self._abandon()
        self._stage = DISCARDING
        self._forget_all()
        self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage = CLOSED
        self.deadline = NEVER
        self._relay.part(self)
        self._abandon()
        self._forget_all()

    def pause_writing(self) -> None:
        self._is_full = True
        if self._exchange is not None:
            self._exchange.client_is_full()
        self._buffered_at_check = self._transport.get_write_buffer_size()
        self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def resume_writing(self) -> None:
        self._is_full = False
        if self._exchange is not None:
            self.deadline = NEVER
            if self._stage is TUNNEL:
                self.tunnel_used()
            return self._exchange.client_is_writable()
        if self._stage is DISCARDING:
            return self._expect_within(LINGER_S)
        self._expect_rest()
        return self._advance()

    # Reading

    def _feed(self, data: bytes) -> None:
        self._ahead = self._reader.feed(data)
        self._advance()

    def _keep_for_later(self, data: bytes) -> None:
        if self._reader.stage is LOST:
            return
        self._ahead += data
        if len(self._ahead) > MOST_AHEAD:
            self._read_no_further()

    def _read_no_further(self) -> None:
        """What was read is still answered, then the connection closes. A tunnel cannot begin with bytes missing."""
        self._ahead = b""
        self._reader.forget()
        if self._exchange is not None and self._exchange.wants_tunnel:
            self.abort()

    def request_read(self, request: Request) -> None:
        """The usual case needs no queue: the previous request was answered long ago."""
        if self._exchange is None and not (self._is_full or self._queue or self._is_advancing):
            self._begin(request)
        else:
            self._queue.append(request)

    def request_answered(self, answer: bytes, *, keep_alive: bool) -> None:
        self._queue.append(Reply(answer, keep_alive))

    def request_refused(self, error: HotseatError, head: RequestHead | None, *, keep_alive: bool) -> None:
        self._queue.append(self._refusal(error, head, keep_alive=keep_alive))

    def body_awaited(self) -> None:
        if self._reader.wants_continue and self._exchange is None and not self._queue:
            self._reader.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # Errors

    def _refuse_connection(self, excess: Excess) -> None:
        if not excess.may_be_told:
            return self.abort()
        text = f"too many connections ({excess.limit}). Try again in a moment."
        return self._say(self._refusal(Busy(text, retry_after=1), None, keep_alive=False))

    def _refusal(
        self, error: HotseatError, head: RequestHead | None, *, keep_alive: bool, request_id: bytes = b""
    ) -> Reply:
        error = error if head is None else refusal_for_host(error, head)
        self._relay.ledger.refused(error.code)
        if head is None:
            return Reply(answer(error, Dialect.TEXT, request_id=self._relay.new_id(), close=not keep_alive), keep_alive)
        rules = self._relay.rules
        dialect = dialect_for(head, rules.error_format)
        request_id = request_id or id_in(head) or self._relay.new_id()
        is_head = head.method == b"HEAD"
        told = answer(error, dialect, request_id=request_id, close=not keep_alive, head_only=is_head)
        return Reply(rules.cors.readable(told, head), keep_alive)

    def _say(self, reply: Reply) -> None:
        self._transport.write(reply.data)
        if not reply.keep_alive:
            self._linger()

    def _linger(self) -> None:
        """Half-close, let the client finish sending, then close."""
        self._stage = DISCARDING
        self._forget_all()
        self._buffered_at_check = 0  # a client that still reads its response gets the full time for it
        if not self._transport.can_write_eof():  # TLS has no half-close
            self._transport.close()
            return self._expect_within(LINGER_S)
        self._transport.write_eof()
        return self._expect_within(LINGER_S)

    # Serving, in order

    def _advance(self) -> None:
        """Serve complete requests. A loop, not recursion: one read may contain many refused requests."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._is_free and self._stage is not CLOSED and self._next():
                pass
        finally:
            self._is_advancing = False

    @property
    def _is_between_requests(self) -> bool:
        return self._stage is OPEN and self._reader.stage is BETWEEN

    @property
    def _is_free(self) -> bool:
        """Nothing is being served, and the client has read its responses: otherwise they would pile up here."""
        return self._exchange is None and not self._is_full

    def _next(self) -> bool:
        """Take one step; False if nothing can be done before more bytes arrive."""
        if self._queue:
            self._serve(self._queue.popleft())
            return True
        if self._ahead and self._stage is OPEN:
            ahead, self._ahead = self._ahead, b""
            self._feed(ahead)
            return True
        if self._stage is OPEN and self._reader.stage is LOST:
            self._linger()
            return False
        self.body_awaited()
        if self._is_between_requests:
            self._expect_within(self._relay.rules.limits.idle_timeout_s)
        return False

    def _serve(self, item: Request | Reply) -> None:
        if isinstance(item, Reply):
            return self._say(item)
        return self._begin(item)

    def _begin(self, request: Request) -> None:
        self.deadline = NEVER  # the next request may be half read; its timer continues after this response
        if request.verdict.from_host:
            self._is_host = True
        self._exchange = Exchange(self._relay, self, request, self.peer)
        self._exchange.begin()

    def _forget_all(self) -> None:
        """Drop further requests at once, because a client that does not read keeps the connection open."""
        self._reader.forget()
        for item in self._queue:
            if isinstance(item, Request):
                self._relay.forget(item)
        self._queue.clear()

    def judge_again(self) -> int:
        """The rules have changed: refuse or cut requests that they no longer allow; returns how many."""
        ended = 0
        for place, item in enumerate(self._queue):
            if isinstance(item, Request) and (error := self._relay.rules.objection(item, "")) is not None:
                self._relay.forget(item)
                self._queue[place] = self._refusal(error, item.head, keep_alive=item.keep_alive, request_id=item.id)
                ended += 1
        ended += self._reader.judge_again()
        ended += self._exchange is not None and self._exchange.judge_again()
        self._advance()
        return ended

    def under_way(self) -> InProgress | None:
        """The model request in progress on this connection."""
        return None if self._exchange is None else self._exchange.under_way()

    def last_piece(self, model: ModelName) -> object:
        """The last data from the model's server for this connection's request, if it uses that model."""
        return None if self._exchange is None else self._exchange.last_piece(model)

    # Called by the exchange

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None:
        assert self._exchange is not None
        request = self._exchange.request
        refusal = self._refusal(error, request.head, keep_alive=keep_alive, request_id=request.id)
        self._transport.write(refusal.data)

    def exchange_ended(self, *, keep_alive: bool, now: Instant) -> None:
        self._exchange = None
        if not keep_alive:
            return self._linger()
        is_idle = self._is_between_requests and not (self._queue or self._ahead)
        if is_idle and not self._relay.is_draining:
            self.deadline = now + self._relay.rules.limits.idle_timeout_s
            return None
        self._expect_rest()
        self._advance()
        if self._relay.is_draining:
            self.drain()
        return None

    @property
    def is_full(self) -> bool:
        return self._is_full

    def become_tunnel(self) -> None:
        """From here on bytes pass both ways unchanged, starting with those already buffered."""
        assert self._exchange is not None
        self._stage = TUNNEL
        ahead, self._ahead = self._ahead, b""
        self._exchange.from_client(ahead)

    def tunnel_ended(self) -> None:
        self._exchange = None
        self._stage = DISCARDING
        self._transport.close()
        self._expect_within(LINGER_S)

    def tunnel_used(self) -> None:
        self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def hold(self) -> None:
        """The upstream cannot take more for now."""
        self._relay.held.add(self)
        self._transport.pause_reading()

    def go_on(self) -> None:
        self._relay.held.discard(self)
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def fileno(self) -> int:
        return int(self._transport.get_extra_info("socket").fileno())

    def hung_up(self) -> None:
        """The kernel reports a disconnect while we do not read. Nobody would read the upstream's response."""
        self.eof_received()
        self.go_on()  # so that the transport sees it as well

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """End visibly incomplete: without the last chunk, or by a reset where a clean close would look complete."""
        self._exchange = None
        self._stage = DISCARDING
        self._forget_all()
        if last_words:
            self._transport.write(last_words)
        if looks_complete:
            reset_on_close(self._transport)
        self._transport.close()
        self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def _abandon(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandoned()

    # Timeouts

    def expect_within(self, seconds: Seconds) -> None:
        """Called by the reader. While a request is being served, the next one has no time limit."""
        if self._exchange is None:
            self._expect_within(seconds)

    def _expect_within(self, seconds: Seconds) -> None:
        self.deadline = self._relay.now() + seconds

    def expect_nothing(self) -> None:
        if self._exchange is None:
            self.deadline = NEVER

    def _expect_rest(self) -> None:
        """The timeout of a half-read request runs only while we read."""
        limits = self._relay.rules.limits
        if self._reader.stage is Reading.HEAD:
            self._expect_within(limits.header_timeout_s)
        elif self._reader.stage is Reading.BODY:
            self._expect_within(limits.body_timeout_s)

    def time_is_up(self) -> None:
        self.deadline = NEVER
        if self._transport.get_write_buffer_size():
            return self._client_reads_slowly()
        if self._stage is TUNNEL:
            return self.abort()
        if self._stage is OPEN and self._reader.stage in (Reading.HEAD, Reading.BODY):
            part = self._reader.stage.value
            self._reader.give_up(TooSlow(f"the rest of the request did not arrive in time ({part})"))
            return self._advance()
        return self._transport.close()

    def _client_reads_slowly(self) -> None:
        """A client that reads nothing must not occupy a model forever; a slow reader may continue."""
        buffered = self._transport.get_write_buffer_size()
        if buffered >= self._buffered_at_check > 0:
            return self.abort()
        self._buffered_at_check = buffered
        return self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def abort(self) -> None:
        """Reset the connection at once."""
        self._abandon()
        reset_on_close(self._transport)
        self._transport.abort()

    def drain(self) -> None:
        """Take no more requests: close the connection now if it is idle, else after its response."""
        if self._exchange is not None and self._exchange.is_feed:
            return self.abort()  # it would never end by itself
        if self._exchange is None and not self._queue and self._reader.stage is not Reading.BODY:
            return self._expect_within(FAREWELL_S) if self._is_host else self._transport.close()
        return None


class CountedConnection(ClientConnection):
    """A connection that was counted when it was accepted, before its TLS handshake."""

    __slots__ = ()

    def _join(self) -> None:
        self._relay.join_counted(self)


def reset_on_close(transport: asyncio.Transport) -> None:
    with suppress(OSError):  # macOS raises this if the other side has already reset it
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
