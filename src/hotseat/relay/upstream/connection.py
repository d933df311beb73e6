"""One connection to an upstream: serves one exchange at a time and is idle in the pool between them.

The bytes of an answer are relayed as they came, in the callback they came in. Where its head was read before, its body
is counted; what is new goes through llhttp (`Answer`). What llhttp cannot know, we see to: heads of interim responses
are cut off before it sees them, an answer to HEAD ends at its head, and one without framing ends with the connection.
"""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from hotseat.errors import UpstreamError
from hotseat.relay.exchange.token_usage import LARGE, LAST_PIECES, ends_of
from hotseat.relay.http.head_cache import known_response, split_length
from hotseat.relay.upstream.delivery import is_untaken
from hotseat.relay.upstream.response_reader import Answer, DechunkedAnswer, Switched, sent_more

if TYPE_CHECKING:
    from hotseat.catalog.spec import Timeouts
    from hotseat.identifiers import Address, Bytes, Instant, Seconds
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.http.body import Body
    from hotseat.relay.http.head import ResponseHead
    from hotseat.relay.http.head_cache import KnownResponse
    from hotseat.relay.upstream.pool import Pool

LARGEST_HEAD = 64 << 10
MOST_INTERIM_HEADS = 16

# llama-server closes kept-alive connections after 5 s or 100 requests; below these limits neither race occurs.
REST_S: Seconds = 4.0
MOST_REQUESTS = 99

INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
FINAL = tuple(b"HTTP/1.%d %d" % (minor, kind) for minor in (1, 0) for kind in range(1, 10))
"""How a response begins. A 101 is not interim."""


class Stage(Enum):
    RESTING = "resting"
    ASKED = "asked"
    HEAD = "head"
    BODY = "body"
    COMPLETE = "complete"
    TUNNEL = "tunnel"
    CLOSED = "closed"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
RESTING: Final = Stage.RESTING
ASKED: Final = Stage.ASKED
HEAD: Final = Stage.HEAD
BODY: Final = Stage.BODY
COMPLETE: Final = Stage.COMPLETE
TUNNEL: Final = Stage.TUNNEL
CLOSED: Final = Stage.CLOSED


class UpstreamConnection(asyncio.Protocol):
    __slots__ = (
        "_answer",
        "_body",
        "_earlier",
        "_exchange",
        "_held",
        "_interim_heads",
        "_is_held",
        "_is_paused",
        "_last",
        "_left",
        "_longest_rest_s",
        "_most_requests",
        "_pieces",
        "_pool",
        "_requests",
        "_rest_s",
        "_rest_until",
        "_sent",
        "_size",
        "_stage",
        "_to_learn",
        "_transport",
        "address",
    )

    ANSWER = Answer
    RECALLS = True
    """Does it use the cache of heads?"""

    def __init__(self, address: Address, pool: Pool) -> None:
        self.address = address
        self._pool = pool
        self._transport: asyncio.Transport
        self._exchange: Exchange | None = None
        self._stage = RESTING
        self._requests = 0
        self._earlier: Bytes = 0
        """Bytes sent before the current request, and the size of that one."""
        self._size: Bytes = 0
        self._rest_s: Seconds = REST_S
        self._longest_rest_s: Seconds = REST_S
        self._most_requests = MOST_REQUESTS
        self._rest_until: Instant = 0.0
        self._is_paused = False
        self._is_held = False
        self._last: KnownResponse | None = None
        """The previous response: servers repeat themselves."""
        # Of the current response; empty while idle.
        self._answer: Answer | None = None
        self._held = b""
        self._interim_heads = 0
        self._left: Bytes = 0
        self._to_learn: tuple[bytes, ResponseHead] | None = None
        self._body: Body | None = None
        self._sent = 0
        self._pieces: list[bytes] = []
        """The last parts received; long ones are shortened."""

    def keep_to(self, timeouts: Timeouts) -> None:
        """Limit the idle time as configured, and enable the kernel's keep-alive probes."""
        if timeouts.idle_s is not None:
            self._longest_rest_s = timeouts.idle_s
        with suppress(OSError):  # for instance of a closed socket, which is reported elsewhere
            self._ask_of_kernel(timeouts)

    def _ask_of_kernel(self, timeouts: Timeouts) -> None:
        sock = self._transport.get_extra_info("socket")
        if timeouts.keepalive_s is not None and not self.address.unix_path:
            keep_alive(sock, timeouts.keepalive_s)
        if timeouts.lost_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeouts.lost_s * 1000))

    # Called by the exchange

    def serves(self, exchange: Exchange) -> bool:
        return self._exchange is exchange

    def can_be_used(self, now: Instant) -> bool:
        return now < self._rest_until and not self._transport.is_closing()

    def last_piece(self) -> object:
        """The last data of the current response; None before that. A new object each time while we pause reading."""
        if self._is_held:
            return object()
        return self._pieces[-1] if self._pieces else None

    @property
    def is_between_chunks(self) -> bool:
        return self._answer is not None and self._answer.is_between_chunks

    def send(self, exchange: Exchange, head: bytes, body: Body) -> None:
        self._exchange = exchange
        self._stage = ASKED
        self._requests += 1
        self._earlier, self._size = self._earlier + self._size, len(head) + body.size
        if body.is_spooled:
            self._transport.write(head)
            self._body, self._sent = body, 0
            self._send_more()
        else:
            self._transport.write(head + body.whole() if body.size else head)

    def forward(self, data: bytes) -> None:
        self._transport.write(data)

    def release(self) -> None:
        """The exchange ends before the response: the rest is useless."""
        self._exchange = None
        if self._stage is TUNNEL and not self._is_paused:
            return self.close()  # the client's last bytes are still sent if the upstream takes them
        return self._drop()

    def close(self) -> None:
        self._stage = CLOSED
        self._transport.close()

    def pause(self) -> None:
        """The client cannot take more for now."""
        self._is_held = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._is_held = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return self.close()  # unexpected bytes
        try:
            if self._stage is BODY and self._answer is not None and self._answer.is_whole_chunk(data):
                self._keep(data)
                return exchange.write(data)  # nearly all data of a stream
            if self._stage is BODY:
                self._body_received(exchange, data)
            elif self._stage is TUNNEL:
                self._keep(data)
                exchange.from_upstream(data)
            else:
                self._head_received(exchange, data)
            if self._stage is COMPLETE:
                self._complete(exchange)
        except UpstreamError as problem:
            self._drop()
            exchange.failed(problem)
        except Exception as problem:
            self._drop()
            exchange.crashed(problem)
        return None

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._stage is TUNNEL and self._exchange is not None:
            self._exchange.upstream_is_full()

    def resume_writing(self) -> None:
        self._is_paused = False
        exchange = self._exchange
        if self._stage is TUNNEL and exchange is not None:
            exchange.upstream_is_writable()
        try:
            self._send_more()
        except Exception as problem:
            self._drop()
            if exchange is not None:
                exchange.crashed(problem)

    def eof_received(self) -> None:
        """The upstream sends nothing more and will not read what is left to send."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        stage, self._stage = self._stage, CLOSED
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return self._pool.forget(self)
        if stage is TUNNEL:
            return exchange.tunnel_ended()
        if stage is BODY and exc is None and exchange.response_ends_with_connection and not exchange.server_is_dying:
            return exchange.ended_by_hanging_up(self._pool.now(), self._pieces)
        was_stale = stage is ASKED and self._requests > 1
        return exchange.connection_lost(may_retry=was_stale and (exchange.only_reads or self._is_untaken(exc)))

    def _is_untaken(self, problem: Exception | None) -> bool:
        """Was it closed while idle, just as we used it again?"""
        if self.address.tls:
            return False  # TLS changes the number of bytes
        return is_untaken(self._transport.get_extra_info("socket"), self._earlier, problem)

    # Heads

    def _head_received(self, exchange: Exchange, data: bytes) -> None:
        last = self._last
        if last is not None and self._stage is ASKED and not exchange.wants_head_only:
            found = last.outline.found_in(data)
            if found is not None:
                return self._begin_known(exchange, last, found[0], data[found[1] :])
        return self._look_at_head(exchange, data)

    def _look_at_head(self, exchange: Exchange, data: bytes) -> None:
        self._stage = HEAD
        data = self._without_interim_heads(self._held + data)
        end = data.find(b"\r\n\r\n") + 4
        is_complete = end >= 4
        if (end if is_complete else len(data)) > LARGEST_HEAD:
            raise UpstreamError(f"the upstream's response head is larger than {LARGEST_HEAD} bytes")
        if not is_complete:
            self._held = data
            return
        self._held = b""
        if not data.startswith(FINAL):  # llhttp also accepts blank lines, other protocols and other versions
            raise UpstreamError("the upstream's response is malformed: it does not begin like HTTP/1.1")
        key, length = split_length(data[:end])
        known = self._pool.known.recall(key) if self.RECALLS else None
        if known is None or length is None or exchange.wants_head_only:
            self._read_head(exchange, data[:end], data[end:], may_learn=length is not None)
        else:
            self._begin_known(exchange, known, length, data[end:])

    def _without_interim_heads(self, data: bytes) -> bytes:
        """Remove 100, 102 and 103: they are between the upstream and us."""
        while data.startswith(INTERIM) and data[9:12] != b"101":
            end = data.find(b"\r\n\r\n")
            if end < 0:
                break
            self._interim_heads += 1
            if self._interim_heads > MOST_INTERIM_HEADS:
                raise UpstreamError(f"the upstream sent more than {MOST_INTERIM_HEADS} interim responses")
            data = data[end + 4 :]
        return data

    def _read_head(self, exchange: Exchange, lines: bytes, data: bytes, *, may_learn: bool) -> None:
        answer = self._answer = self.ANSWER()
        try:
            head = answer.read_head(lines)
        except Switched as switch:
            return self._switch(exchange, switch.head, data)
        if exchange.is_turned_away(head):  # it goes to another host
            return self._drop()
        self._rest_s, self._most_requests = _promised(head.known.get(b"keep-alive", b""))
        if head.is_event_stream:
            # llama-server closes after each stream, whatever it promised; a request sent at that moment is lost.
            self._rest_s = 0.0
        if exchange.wants_head_only:
            answer.keeps_alive = False  # llhttp would wait for a body that never comes
            self._stage = COMPLETE
            return exchange.head_received(head)
        if may_learn and not head.has_no_body:
            self._to_learn = (lines, head)
        return self._begin_body(exchange, answer, head, data)

    def _switch(self, exchange: Exchange, head: ResponseHead, data: bytes) -> None:
        if not exchange.wants_tunnel:
            raise UpstreamError("the upstream switched protocols without being asked")
        self._stage = TUNNEL
        if data:
            self._keep(data)
        exchange.switched(head, data)

    def _begin_known(self, exchange: Exchange, known: KnownResponse, length: int, data: bytes) -> None:
        """With a cached head llhttp is not needed: the body ends after `length` bytes."""
        self._last = known
        self._rest_s, self._most_requests = known.rest
        self._count(length, data)
        self._keep(data)
        exchange.known_head_received(known, length, data)

    def _begin_body(self, exchange: Exchange, answer: Answer, head: ResponseHead, data: bytes) -> None:
        """Check the data that came with the head first: an error can still be sent with a status."""
        if data:
            answer.follow(data)
        self._stage = COMPLETE if answer.is_complete else BODY
        exchange.head_received(head)
        if data:
            self._keep(data)
            exchange.write(answer.relayed(data))

    # Bodies

    def _keep(self, data: bytes) -> None:
        """Keep the last parts for token counts. A list: a deque is ten times as large, and streams are many."""
        pieces = self._pieces
        pieces.append(data if len(data) <= LARGE else ends_of(data))
        if len(pieces) > LAST_PIECES:
            del pieces[0]

    def _body_received(self, exchange: Exchange, data: bytes) -> None:
        answer = self._answer
        self._keep(data)
        if answer is None:
            self._count(self._left, data)
            exchange.write(data)
        else:
            answer.follow(data)
            exchange.write(answer.relayed(data))
            self._stage = COMPLETE if answer.is_complete else BODY

    def _count(self, expected: Bytes, data: bytes) -> None:
        """Extra bytes could pass for the client's next response."""
        self._left = expected - len(data)
        if self._left < 0:
            raise sent_more()
        self._stage = BODY if self._left else COMPLETE

    # End

    def _complete(self, exchange: Exchange) -> None:
        self._exchange = None
        now = self._pool.now()
        if self._is_held:
            self.resume()  # the last write may have paused us for a slow client
        if self._can_rest():
            self._rest(now)
        else:
            self._stage = CLOSED
            self._transport.abort()
        exchange.ended(now, self._pieces)
        self._pieces.clear()

    def _can_rest(self) -> bool:
        """Not if the upstream responded without reading the whole request: it may never read the rest."""
        if self._answer is not None and not self._answer.keeps_alive:
            return False
        has_sent_all = self._body is None and not self._transport.get_write_buffer_size()
        return has_sent_all and self._requests < self._most_requests and self._rest_s > 0

    def _rest(self, now: Instant) -> None:
        if self._answer is not None:
            self._learn()
            self._answer = self._to_learn = None
        self._interim_heads = 0
        self._stage = RESTING
        self._rest_until = now + min(self._rest_s, self._longest_rest_s)
        self._pool.rest(self)

    def _learn(self) -> None:
        if self._to_learn is not None:
            lines, head = self._to_learn
            known = known_response(lines, head, (self._rest_s, self._most_requests))
            self._pool.known.learn(split_length(lines)[0], known)

    def _drop(self) -> None:
        """The rest of the response is useless."""
        self._exchange = None
        self._stage = CLOSED
        self._transport.abort()

    def _send_more(self) -> None:
        """Send a spooled body in parts, as fast as the upstream takes it."""
        while self._body is not None and not self._is_paused and self._stage is not CLOSED:
            piece = self._body.pieces_from(self._sent)
            if not piece:
                self._body = None
                return
            self._sent += len(piece)
            self._transport.write(piece)


class DechunkingConnection(UpstreamConnection):
    """For one response to an HTTP/1.0 client."""

    ANSWER = DechunkedAnswer
    RECALLS = False
    __slots__ = ()

    def _can_rest(self) -> bool:
        return False


def keep_alive(sock: socket.socket, seconds: Seconds) -> None:
    """Let the kernel probe the connection after this much silence, and repeatedly."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):  # macOS has another name for the first, and its own default
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), max(1, int(seconds)))


def _promised(keep_alive: bytes) -> tuple[Seconds, int]:
    """How long and how often a connection may be used, from `timeout=5, max=100`, with a margin for the race."""
    if not keep_alive:
        return REST_S, MOST_REQUESTS
    numbers = {key: int(number) for key, number in _KEEP_ALIVE.findall(keep_alive.lower())}
    return min(REST_S, numbers.get(b"timeout", 5) - 1.0), min(MOST_REQUESTS, numbers.get(b"max", 100) - 1)


_KEEP_ALIVE = re.compile(rb"(timeout|max)\s*=\s*(\d{1,9})")
