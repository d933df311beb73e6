"""One connection to an upstream: it serves one exchange at a time and rests in the pool between them.

llhttp follows the framing; the bytes themselves are relayed as they came, in the callback they came in. What it
cannot know, we tell: heads of interim answers are cut off before it sees them, an answer to HEAD ends at its head,
and an answer without framing ends with the connection.
"""

from __future__ import annotations

import asyncio
import re
from enum import Enum
from typing import TYPE_CHECKING, cast

import httptools

from hotseat.errors import UpstreamError
from hotseat.relay.head import SWITCHING, read_response_head
from hotseat.relay.known import known_response, split_length

if TYPE_CHECKING:
    from hotseat.relay.body import Body
    from hotseat.relay.exchange import Exchange
    from hotseat.relay.head import Field, ResponseHead
    from hotseat.relay.known import KnownResponse
    from hotseat.relay.pool import Pool
    from hotseat.terms import Address, Bytes, Instant, Seconds

LARGEST_HEAD = 64 << 10
MOST_INTERIM_HEADS = 16
MOST_BETWEEN_CHUNKS: Bytes = 1 << 20
"""Of sizes, extensions and trailers. More than one read brings, because a read may end just behind a chunk."""

# llama-server closes kept-alive connections after 5 s or 100 requests; whoever stays below meets neither race.
REST_S: Seconds = 4.0
MOST_REQUESTS = 99

INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
FINAL = tuple(b"HTTP/1.%d %d" % (minor, kind) for minor in (1, 0) for kind in range(1, 10))
"""How an answer begins. A 101 is no interim answer."""


class Stage(Enum):
    RESTING = "resting"
    ASKED = "asked"
    HEAD = "head"
    BODY = "body"
    COMPLETE = "complete"
    TUNNEL = "tunnel"
    CLOSED = "closed"


class UpstreamConnection(asyncio.Protocol):
    __slots__ = (
        "_between",
        "_body",
        "_exchange",
        "_fields",
        "_held",
        "_in_chunk",
        "_interim_heads",
        "_is_chunked",
        "_is_counted",
        "_is_held",
        "_is_paused",
        "_keep",
        "_left",
        "_most_requests",
        "_parser",
        "_pool",
        "_reason",
        "_requests",
        "_rest_s",
        "_rest_until",
        "_sent",
        "_stage",
        "_tail",
        "_to_learn",
        "_transport",
        "address",
        "is_between_chunks",
    )

    RECALLS = True
    """Does it recognise heads that were read before?"""

    def __init__(self, address: Address, pool: Pool) -> None:
        self.address = address
        self._pool = pool
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._stage = Stage.RESTING
        self._requests = 0
        self._rest_s: Seconds = REST_S
        self._most_requests = MOST_REQUESTS
        self._rest_until: Instant = 0.0
        self._body: Body | None = None
        self._sent = 0
        self._is_paused = False
        self._is_held = False

    # What the exchange asks for

    def serves(self, exchange: Exchange) -> bool:
        return self._exchange is exchange

    def can_be_used(self, now: Instant) -> bool:
        return not self._transport.is_closing() and now < self._rest_until

    def send(self, exchange: Exchange, head: bytes, body: Body) -> None:
        self._exchange = exchange
        self._stage = Stage.ASKED
        self._requests += 1
        self._fields: list[Field] = []
        self._held = self._reason = b""
        self._keep = self._in_chunk = self._is_chunked = self._is_counted = self.is_between_chunks = False
        self._interim_heads = self._between = 0
        self._tail = b""
        self._to_learn: tuple[bytes, ResponseHead] | None = None
        self._left: Bytes | None = None
        self._body, self._sent = None, 0
        if body.is_spooled:
            self._transport.write(head)
            self._body = body
            self._send_more()
        else:
            self._transport.write(head + body.whole() if body.size else head)

    def forward(self, data: bytes) -> None:
        """Through the tunnel."""
        self._transport.write(data)

    def release(self) -> None:
        """The exchange is over before the answer is: nobody can use what still comes."""
        self._exchange = None
        if self._stage is Stage.TUNNEL:
            return self.close()  # the client's last words still go through
        self._stage = Stage.CLOSED
        return self._transport.abort()

    def close(self) -> None:
        self._stage = Stage.CLOSED
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
            return self.close()  # bytes that nobody asked for
        if self._stage is Stage.TUNNEL:
            return exchange.from_upstream(data)
        try:
            if self._stage is Stage.BODY:
                self._follow(data)
                self._pass_on(exchange, data)
            else:
                self._head_received(exchange, data)
        except httptools.HttpParserError as problem:
            cause = problem.__context__  # what a callback raised
            malformed = UpstreamError(f"the upstream's answer is malformed: {problem}")
            return self._fail(cause if isinstance(cause, UpstreamError) else malformed)
        except UpstreamError as problem:
            return self._fail(problem)
        if self._stage is Stage.COMPLETE:
            self._complete()
        return None

    def pause_writing(self) -> None:
        self._is_paused = True
        if self._stage is Stage.TUNNEL and self._exchange is not None:
            self._exchange.upstream_is_full()

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._stage is Stage.TUNNEL and self._exchange is not None:
            self._exchange.upstream_has_room()
        self._send_more()

    def eof_received(self) -> None:
        """Nothing more will come, and nobody will read what we may still have to send."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        stage, self._stage = self._stage, Stage.CLOSED
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return self._pool.forget(self)
        if stage is Stage.TUNNEL:
            return exchange.tunnel_ended()
        if stage is Stage.BODY and exchange.response_ends_with_connection and exc is None:
            return exchange.ended()
        # Closed while it rested, just as we used it again: not one byte came back, so nothing was begun.
        was_stale = stage is Stage.ASKED and self._requests > 1
        return exchange.connection_lost(may_retry=was_stale)

    # llhttp

    def on_message_begin(self) -> None:
        if self._stage is Stage.COMPLETE:
            raise sent_more()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is Stage.HEAD:
            self._fields.append((name, value))
        else:  # a trailer, relayed with the body
            self._count_between(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._stage = Stage.BODY

    def on_chunk_header(self) -> None:
        self._in_chunk = True
        self._between = 0

    def on_chunk_complete(self) -> None:
        self._in_chunk = False
        self._between = 0

    def on_message_complete(self) -> None:
        self._stage = Stage.COMPLETE
        # Valid in this callback only: llhttp clears its flags after it.
        self._keep = self._parser.should_keep_alive()

    # Heads

    def _head_received(self, exchange: Exchange, data: bytes) -> None:
        self._stage = Stage.HEAD
        data = self._without_interim_heads(self._held + data)
        end = data.find(b"\r\n\r\n") + 4
        is_complete = end >= 4
        if (end if is_complete else len(data)) > LARGEST_HEAD:
            raise UpstreamError(f"the upstream's head is larger than {LARGEST_HEAD} bytes")
        if not is_complete:
            self._held = data
            return
        self._held = b""
        if not data.startswith(FINAL):  # llhttp would take blank lines, other protocols and other versions too
            raise UpstreamError("the upstream's answer is malformed: it does not begin like HTTP/1.1")
        key, length = split_length(data[:end])
        known = self._pool.known.recall(key) if self.RECALLS else None
        if known is None or length is None or exchange.wants_head_only:
            self._read_head(exchange, data, end, key if length is not None else None)
        else:
            self._begin_known(exchange, known, length, data[end:])

    def _without_interim_heads(self, data: bytes) -> bytes:
        """Cut 100, 102 and 103 off: they are between the upstream and us."""
        while data.startswith(INTERIM) and data[9:12] != b"101":
            end = data.find(b"\r\n\r\n")
            if end < 0:
                break
            self._interim_heads += 1
            if self._interim_heads > MOST_INTERIM_HEADS:
                raise UpstreamError(f"the upstream sent more than {MOST_INTERIM_HEADS} interim answers")
            data = data[end + 4 :]
        return data

    def _read_head(self, exchange: Exchange, data: bytes, end: int, key: bytes | None) -> None:
        try:
            self._parser.feed_data(data[:end])
        except httptools.HttpParserUpgrade:  # a 101: what follows is no longer HTTP
            return self._switch(exchange, data[end:])
        head = read_response_head(self._parser.get_status_code(), self._reason, self._fields)
        self._rest_s, self._most_requests = _promised(head.known.get(b"keep-alive", b""))
        if exchange.wants_head_only:
            self._stage, self._keep = Stage.COMPLETE, False  # llhttp would wait for a body that never comes
            return exchange.head_received(head)
        if key is not None and not head.has_no_body:
            self._to_learn = (key, head)
        return self._begin_body(exchange, head, data[end:])

    def _switch(self, exchange: Exchange, data: bytes) -> None:
        if not exchange.wants_tunnel:
            raise UpstreamError("the upstream switched protocols though nobody asked")
        self._stage = Stage.TUNNEL
        exchange.switched(read_response_head(SWITCHING, self._reason, self._fields), data)

    def _begin_known(self, exchange: Exchange, known: KnownResponse, length: int, data: bytes) -> None:
        """A head that was read before: llhttp need not see it, the body ends when it has been counted."""
        self._rest_s, self._most_requests = known.rest
        self._keep = self._is_counted = True
        self._left = length
        self._stage = Stage.BODY
        self._follow(data)
        exchange.known_head_received(known, length, data)

    def _begin_body(self, exchange: Exchange, head: ResponseHead, data: bytes) -> None:
        """What came with the head is looked at first: an error can still be told with a status."""
        self._left = head.length
        self.is_between_chunks = self._is_chunked = head.is_chunked
        if data:
            self._follow(data)
        exchange.head_received(head)
        if data:
            self._pass_on(exchange, data)

    # Bodies

    def _follow(self, data: bytes) -> None:
        """Find the end of the answer, and raise for what lies beyond: it could pass for the client's next answer."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise sent_more()
        if self._is_counted:
            self._stage = Stage.BODY if self._left else Stage.COMPLETE
            return
        self._parser.feed_data(data)
        if self._is_chunked:
            self._follow_chunks(data)

    def _follow_chunks(self, data: bytes) -> None:
        """Raise for what llhttp takes no offence at: line ends after the last chunk, and no end of what is no body."""
        self._tail = (self._tail + data[-5:])[-5:]
        if self._stage is Stage.COMPLETE:
            if self._left is None and (not self._tail.endswith(b"\r\n\r\n") or self._tail[0] in b"\r\n"):
                raise sent_more()
        elif not self._in_chunk:
            self._count_between(len(data))

    def _count_between(self, size: Bytes) -> None:
        self._between += size
        if self._between > MOST_BETWEEN_CHUNKS:
            raise UpstreamError("the upstream sent too much between two chunks")

    def _pass_on(self, exchange: Exchange, data: bytes) -> None:
        self.is_between_chunks = not self._in_chunk and data.endswith(b"\r\n")
        exchange.write(data)

    # Ends

    def _complete(self) -> None:
        exchange, self._exchange = self._exchange, None
        assert exchange is not None
        if self._is_held:
            self.resume()  # the last write may just have paused us for a slow client
        if self._can_rest():
            self._learn()
            self._stage = Stage.RESTING
            self._rest_until = self._pool.now() + self._rest_s
            self._pool.rest(self)
        else:
            self._stage = Stage.CLOSED
            self._transport.abort()
        exchange.ended()

    def _can_rest(self) -> bool:
        """Not where the upstream answered without reading all that it was sent: it may never read the rest."""
        has_sent_all = self._body is None and not self._transport.get_write_buffer_size()
        return self._keep and has_sent_all and self._rest_s > 0 and self._requests < self._most_requests

    def _learn(self) -> None:
        if self._to_learn is not None:
            key, head = self._to_learn
            self._pool.known.learn(key, known_response(head, (self._rest_s, self._most_requests)))

    def _fail(self, error: UpstreamError) -> None:
        exchange, self._exchange = self._exchange, None
        self._stage = Stage.CLOSED
        self._transport.abort()
        if exchange is not None:
            exchange.failed(error)

    def _send_more(self) -> None:
        """Send a spooled body piece by piece, as fast as the upstream takes it."""
        while self._body is not None and not self._is_paused and self._stage is not Stage.CLOSED:
            piece = self._body.pieces_from(self._sent)
            if not piece:
                self._body = None
                return
            self._sent += len(piece)
            self._transport.write(piece)


class DechunkingConnection(UpstreamConnection):
    """For HTTP/1.0 clients, who know no chunks. A class of its own, because being told of every part costs time."""

    RECALLS = False
    __slots__ = ("_parts",)

    def __init__(self, address: Address, pool: Pool) -> None:
        super().__init__(address, pool)
        self._parts: list[bytes] = []

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def _pass_on(self, exchange: Exchange, data: bytes) -> None:
        parts, self._parts = self._parts, []
        exchange.write(b"".join(parts))

    def _can_rest(self) -> bool:
        return False


def sent_more() -> UpstreamError:
    return UpstreamError("the upstream sent more than its answer")


def _promised(keep_alive: bytes) -> tuple[Seconds, int]:
    """How long and how often a connection may be used, from `timeout=5, max=100`, with a margin for the race."""
    if not keep_alive:
        return REST_S, MOST_REQUESTS
    numbers = {key: int(number) for key, number in _KEEP_ALIVE.findall(keep_alive.lower())}
    return min(REST_S, numbers.get(b"timeout", 5) - 1.0), min(MOST_REQUESTS, numbers.get(b"max", 100) - 1)


_KEEP_ALIVE = re.compile(rb"(timeout|max)\s*=\s*(\d{1,9})")
