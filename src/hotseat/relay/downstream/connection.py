"""One client connection: serves its requests in order and notices when the client disconnects.

Only websockets are paused, for an upstream that takes no more; the relay asks the kernel whether those clients have
disconnected. As in nginx, a FIN after a complete request is a disconnect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from hotseat.relay.downstream.connection_count import host_of
from hotseat.relay.downstream.refusals import refusal, too_many_connections
from hotseat.relay.downstream.request_queue import NEVER, RequestQueue
from hotseat.relay.downstream.stages import BETWEEN, BODY, CLOSED, DISCARDING, OPEN, TUNNEL
from hotseat.relay.exchange.exchange import Exchange
from hotseat.relay.exchange.start import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Instant, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.connections import Connections
    from hotseat.relay.downstream.refusals import Reply
    from hotseat.relay.downstream.stages import Stage
    from hotseat.relay.exchange.request import Request

FAREWELL_S: Seconds = 1.0
"""How long a fleet host may still send on a connection that we close, until it notices."""
LINGER_S: Seconds = 2.0
"""How long a refused client may go on sending before we close: an immediate close could destroy the response."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_buffered_at_check",
        "_connections",
        "_context",
        "_is_counted",
        "_is_host",
        "_queue",
        "_reader",
        "deadline",
        "exchange",
        "is_full",
        "peer",
        "stage",
        "transport",
        "write",
    )

    def __init__(self, context: Context, connections: Connections, *, is_counted: bool = False) -> None:
        """`is_counted`: it was counted when it was accepted, before its TLS handshake."""
        self._context = context
        self._connections = connections
        self._is_counted = is_counted
        self.transport: asyncio.Transport
        self.stage: Stage = OPEN
        self.peer = ""
        self._queue: RequestQueue
        self.exchange: Exchange | None = None
        """Of the request that is being served."""
        self.is_full = False
        """Is so much unread that nothing should be added?"""
        self._is_host = False
        self._buffered_at_check = 0
        self.deadline: Instant = NEVER

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.write: Callable[[bytes], None] = self.transport.write
        self.peer = host_of(transport.get_extra_info("peername"))
        self._queue = RequestQueue(self._context, self, self.peer)
        self._reader = self._queue.reader
        excess = self._connections.join(self, is_counted=self._is_counted)
        if excess is not None:
            return self.reply(too_many_connections(self._context, excess)) if excess.may_be_told else self.abort()
        self.expect_within(self._context.policy.limits.header_timeout_s)
        # Accepted just as the shutdown began.
        return self.drain() if self._context.is_draining else None

    def data_received(self, data: bytes) -> None:
        if self.exchange is None and self.stage is OPEN and not self.is_full:
            self._queue.ahead = ahead = self._reader.feed(data)
            if self.exchange is None or ahead:
                self._queue.advance()
        elif self.stage is TUNNEL and self.exchange is not None:
            self.exchange.from_client(data)
        elif self.stage is not DISCARDING:
            self._queue.keep_for_later(data)

    def eof_received(self) -> None:
        """A disconnect. The transport would report the loss only after the client had read all that was written."""
        self._abandon()
        self.stage = DISCARDING
        self._queue.forget_all()
        self.expect_within(self._context.policy.limits.idle_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stage = CLOSED
        self.deadline = NEVER
        self._connections.part(self)
        self._abandon()
        self._queue.forget_all()

    def pause_writing(self) -> None:
        self.is_full = True
        if self.exchange is not None:
            self.exchange.client_is_full()
        self._buffered_at_check = self.transport.get_write_buffer_size()
        self.expect_within(self._context.policy.limits.idle_timeout_s)

    def resume_writing(self) -> None:
        self.is_full = False
        if self.exchange is not None:
            self.deadline = NEVER
            if self.stage is TUNNEL:
                self.tunnel_used()
            return self.exchange.client_is_writable()
        if self.stage is DISCARDING:
            return self.expect_within(LINGER_S)
        self._queue.expect_rest()
        return self._queue.advance()

    # Called by the queue

    def begin(self, request: Request) -> None:
        self.deadline = NEVER  # the next request may be half read; its timer continues after this response
        if request.verdict.from_host:
            self._is_host = True
        self.exchange = exchange = Exchange(self._context, self, request)
        exchange.run(start, exchange)

    def reply(self, reply: Reply) -> None:
        self.transport.write(reply.data)
        if not reply.keep_alive:
            self.linger()

    def linger(self) -> None:
        """Half-close, let the client finish sending, then close."""
        self.stage = DISCARDING
        self._queue.forget_all()
        self._buffered_at_check = 0  # a client that still reads its response gets the full time for it
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has no half-close
            self.transport.close()
        self.expect_within(LINGER_S)

    def expect_within(self, seconds: Seconds) -> None:
        """`time_is_up` is called if nothing else happens until then."""
        self.deadline = self._context.now() + seconds

    # Called by the exchange

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None:
        assert self.exchange is not None
        request = self.exchange.request
        told = refusal(self._context, error, request.head, keep_alive=keep_alive, request_id=request.id)
        self.transport.write(told.data)

    def exchange_ended(self, *, keep_alive: bool, now: Instant) -> None:
        self.exchange = None
        if not keep_alive:
            return self.linger()
        context, queue = self._context, self._queue
        is_idle = self.stage is OPEN and self._reader.stage is BETWEEN and not (queue.items or queue.ahead)
        if is_idle and not context.is_draining:
            self.deadline = now + context.policy.limits.idle_timeout_s
            return None
        queue.expect_rest()
        queue.advance()
        return self.drain() if context.is_draining else None

    def become_tunnel(self) -> None:
        """From here on bytes pass both ways unchanged, starting with those already buffered."""
        assert self.exchange is not None
        self.stage = TUNNEL
        ahead, self._queue.ahead = self._queue.ahead, b""
        self.exchange.from_client(ahead)

    def tunnel_ended(self) -> None:
        self.exchange = None
        self.stage = DISCARDING
        self.transport.close()
        self.expect_within(LINGER_S)

    def tunnel_used(self) -> None:
        self.expect_within(self._context.policy.limits.idle_timeout_s)

    def hold(self) -> None:
        """The upstream cannot take more for now."""
        self._connections.held.add(self)
        self.transport.pause_reading()

    def go_on(self) -> None:
        self._connections.held.discard(self)
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """End visibly incomplete: without the last chunk, or by a reset where a clean close would look complete."""
        self.exchange = None
        self.stage = DISCARDING
        self._queue.forget_all()
        if last_words:
            self.transport.write(last_words)
        if looks_complete:
            reset_on_close(self.transport)
        self.transport.close()
        self.expect_within(self._context.policy.limits.idle_timeout_s)

    # Called by the relay

    def abort(self) -> None:
        """Reset the connection at once."""
        self._abandon()
        reset_on_close(self.transport)
        self.transport.abort()

    def _abandon(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.abandoned()

    def judge_again(self) -> int:
        """The policy has changed: refuse or cut requests that it no longer allows; returns how many."""
        ended = self._queue.judge_again()
        ended += self.exchange is not None and self.exchange.judge_again()
        self._queue.advance()
        return ended

    def time_is_up(self) -> None:
        self.deadline = NEVER
        if self.transport.get_write_buffer_size():
            return self._client_reads_slowly()
        if self.stage is TUNNEL:
            return self.abort()
        return None if self._queue.refuse_slow() else self.transport.close()

    def _client_reads_slowly(self) -> None:
        """A client that reads nothing must not occupy a model forever; a slow reader may continue."""
        buffered = self.transport.get_write_buffer_size()
        if buffered >= self._buffered_at_check > 0:
            return self.abort()
        self._buffered_at_check = buffered
        return self.expect_within(self._context.policy.limits.idle_timeout_s)

    def drain(self) -> None:
        """Take no more requests: close the connection now if it is idle, else after its response."""
        if self.exchange is not None and self.exchange.is_feed:
            return self.abort()  # it would never end by itself
        if self.exchange is None and not self._queue.items and self._reader.stage is not BODY:
            return self.expect_within(FAREWELL_S) if self._is_host else self.transport.close()
        return None


def reset_on_close(transport: asyncio.Transport) -> None:
    with suppress(OSError):  # macOS raises this if the other side has already reset it
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
