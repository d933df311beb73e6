"""One client connection: serves its requests in order and notices when the client disconnects.

Only websockets are paused, for an upstream that takes no more; the relay asks the kernel whether those clients have
disconnected. As in nginx, a FIN after a complete request is a disconnect.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, cast

from hotseat.errors import TooSlow
from hotseat.relay.access.authority import host_of
from hotseat.relay.context import Reply
from hotseat.relay.downstream.limits import BEYOND_S
from hotseat.relay.downstream.request_reader import BETWEEN, BODY, HEAD, LOST, RequestReader
from hotseat.relay.exchange.exchange import Exchange
from hotseat.relay.exchange.start import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.limits import Excess
    from hotseat.relay.exchange.request import Request

NEVER: Instant = float("inf")
HOST_CLOSE_S: Seconds = 1.0
"""How long a fleet host may still send on a connection that we close, until it notices."""
LINGER_S: Seconds = 2.0
"""How long a refused client may go on sending before we close: an immediate close could destroy the response."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Stage(Enum):
    OPEN = "open"
    TUNNEL = "tunnel"
    DISCARDING = "discarding"
    """The last response is sent, or nobody reads it; we wait for the client to close, or it has closed."""


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
OPEN, TUNNEL, DISCARDING = Stage


class Owner(Protocol):
    """Knows all connections, counts them and ends them."""

    open: set[ClientConnection]
    held: set[ClientConnection]
    """Those with paused reading, whose transports would not notice a disconnect."""

    def arrived(self, peer: str) -> Excess | None: ...
    def part(self, connection: ClientConnection) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class ClientConnection(asyncio.Protocol):
    _context: Context
    _owner: Owner
    is_counted: bool = False
    """Was it counted when it was accepted, before its TLS handshake?"""
    excess: Excess | None = None
    """The limit beyond which it is: it is for operators and health checks only."""
    transport: asyncio.Transport = field(init=False)
    write: Callable[[bytes], None] = field(init=False)
    _reader: RequestReader = field(init=False)
    stage: Stage = OPEN
    peer: str = ""
    deadline: Instant = NEVER
    """When `time_is_up` is called if nothing else happens until then."""
    exchange: Exchange | None = None
    """Of the request that is being served."""
    is_full: bool = False
    """Is so much unread that nothing should be added?"""
    _is_host: bool = False
    _is_advancing: bool = False
    _buffered_at_check: Bytes = 0

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.write = self.transport.write
        self.peer = host_of(transport.get_extra_info("peername"))
        self._owner.open.add(self)
        if not self.is_counted:
            self.excess = self._owner.arrived(self.peer)
        excess = self.excess
        self._reader = RequestReader(self._context, self.peer, "" if excess is None else excess.source)
        if excess is not None and not excess.is_read:
            return self.abort()
        self.expect_within(self._context.policy.limits.header_timeout_s if excess is None else BEYOND_S)
        # Accepted just as the shutdown began.
        return self.drain() if self._context.is_draining else None

    def data_received(self, data: bytes) -> None:
        if self.exchange is None and self.stage is OPEN and not self.is_full and not self._reader.ahead:
            self._reader.feed(data)
            self._advance()
        elif self.stage is TUNNEL and self.exchange is not None:
            self.exchange.from_client(data)
        elif self.stage is not DISCARDING:
            self._reader.keep(data)
            if self._reader.stage is LOST and self.exchange is not None and self.exchange.request.head.is_websocket:
                self.abort()  # a tunnel cannot begin with bytes missing

    def eof_received(self) -> None:
        """A disconnect. The transport would report the loss only after the client had read all that was written."""
        self._abandon()
        self.stage = DISCARDING
        self._reader.forget_all()
        self.expect_within(self._context.policy.limits.idle_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stage = DISCARDING
        self.deadline = NEVER
        self._owner.part(self)
        self._abandon()
        self._reader.forget_all()

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
        self._reader.restart_timer()
        return self._advance()

    # Serving

    def _advance(self) -> None:
        """Serve what was read. One read may contain thousands of refused requests: each takes a turn of the loop."""
        if self._is_advancing:
            return
        self._is_advancing, reader = True, self._reader
        has_served = False
        try:
            # Until the client has read its responses nothing is served: they would pile up here.
            while self.exchange is None and self.stage is OPEN and not self.is_full:
                if has_served and (reader.items or reader.ahead):
                    self._give_way()
                    break
                if reader.items:
                    has_served = True
                    self._serve(reader.items.pop(0))
                elif reader.ahead:
                    ahead, reader.ahead = reader.ahead, b""
                    reader.feed(ahead)
                else:
                    self._await_more()
                    break
        finally:
            self._is_advancing = False

    def _give_way(self) -> None:
        """Nothing more is read until our next turn: it would overflow the buffer of a client that did nothing wrong."""
        if not self.transport.is_closing():
            self.deadline = NEVER
            self.transport.pause_reading()
            self._context.later(0, self._take_turn)

    def _take_turn(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
        self._advance()
        if self._context.is_draining:
            self.drain()

    def _serve(self, item: Request | Reply) -> None:
        if isinstance(item, Reply):
            self.transport.write(item.data)
            return None if item.keep_alive else self.linger()
        self.deadline = NEVER  # the next request may be half read; its timer continues after this response
        if item.verdict.from_host:
            self._is_host = True
        self.exchange = exchange = Exchange(self._context, self, item)
        return exchange.run(start, exchange)

    def _await_more(self) -> None:
        reader = self._reader
        if reader.stage is LOST:
            return self.linger()
        if reader.wants_continue:
            reader.wants_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.excess is not None:  # nothing that it sends, such as blank lines, gives it more time
            self.deadline = self.deadline if reader.stage is BETWEEN else min(self.deadline, reader.deadline)
        elif reader.stage is BETWEEN:
            self.expect_within(self._context.policy.limits.idle_timeout_s)
        else:
            self.deadline = reader.deadline
        return None

    def linger(self) -> None:
        """Half-close, let the client finish sending, then close."""
        self.stage = DISCARDING
        self._reader.forget_all()
        self._buffered_at_check = 0  # a client that still reads its response gets the full time for it
        if self.transport.can_write_eof() and self.excess is None:
            self.transport.write_eof()
        else:  # TLS has no half-close, and others need a place beyond the limit
            self.transport.close()
        self.expect_within(LINGER_S)

    def expect_within(self, seconds: Seconds) -> None:
        self.deadline = self._context.now() + seconds

    # Called by the exchange

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None:
        assert self.exchange is not None
        request = self.exchange.request
        peer = "" if self.exchange.accounting.is_audited else self.peer
        reply = self._context.refusal(error, request.head, keep_alive=keep_alive, request_id=request.id, peer=peer)
        self.transport.write(reply.data)

    def exchange_ended(self, *, keep_alive: bool, now: Instant) -> None:
        self.exchange = None
        if not keep_alive:
            return self.linger()
        context, reader = self._context, self._reader
        is_idle = self.stage is OPEN and reader.stage is BETWEEN and not (reader.items or reader.ahead)
        if is_idle and not context.is_draining:
            self.deadline = now + context.policy.limits.idle_timeout_s
            return None
        reader.restart_timer()
        self._advance()
        return self.drain() if context.is_draining else None

    def become_tunnel(self) -> None:
        """From here on bytes pass both ways unchanged, starting with those already buffered."""
        assert self.exchange is not None
        self.stage = TUNNEL
        ahead, self._reader.ahead = self._reader.ahead, b""
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
        self._owner.held.add(self)
        self.transport.pause_reading()

    def go_on(self) -> None:
        self._owner.held.discard(self)
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """End visibly incomplete: without the last chunk, or by a reset where a clean close would look complete."""
        self.exchange = None
        self.stage = DISCARDING
        self._reader.forget_all()
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
        ended = self._reader.judge_again()
        ended += self.exchange is not None and self.exchange.judge_again()
        self._advance()
        return ended

    def time_is_up(self) -> None:
        """A client that reads nothing must not occupy a model forever; a slow reader may continue."""
        self.deadline = NEVER
        if buffered := self.transport.get_write_buffer_size():
            if buffered >= self._buffered_at_check > 0:
                return self.abort()
            self._buffered_at_check = buffered
            return self.expect_within(self._context.policy.limits.idle_timeout_s)
        if self.stage is TUNNEL:
            return self.abort()
        reader = self._reader
        if self.stage is not OPEN or reader.stage not in (HEAD, BODY):
            return self.transport.close()
        reader.give_up(TooSlow(f"the rest of the request did not arrive in time ({reader.stage.value})"))
        return self._advance()

    def drain(self) -> None:
        """Take no more requests: close the connection after its response, and now if it is idle and must be."""
        if not self._context.closes_idle:
            return None
        if self.exchange is not None and self.exchange.is_feed:
            return self.abort()  # it would never end by itself
        reader = self._reader
        if self.exchange is None and not (reader.items or reader.ahead) and reader.stage is not BODY:
            return self.expect_within(HOST_CLOSE_S) if self._is_host else self.transport.close()
        return None


def reset_on_close(transport: asyncio.Transport) -> None:
    with suppress(OSError):  # macOS raises this if the other side has already reset it
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
