"""One client's connection: reads requests, answers them in the order they came, notices when the client leaves.

While a request is being served, what arrives is kept for later in a small buffer instead of pausing the transport: a
paused transport reports neither the end nor the loss of its connection, and a hang-up must be seen within
milliseconds. A FIN after a complete request is a hang-up, as in nginx.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, cast

import httptools

from hotseat.errors import Busy, ClientError, HeadTooLarge, HotseatError, NotImplementedHere, TooSlow
from hotseat.relay.body import Body
from hotseat.relay.exchange import Exchange
from hotseat.relay.head import read_head
from hotseat.relay.known import KnownRequest, may_be_learned, split_length
from hotseat.relay.naming import find_road
from hotseat.relay.refusals import Dialect, answer
from hotseat.relay.request import Request, dialect_for, must_stay_in_memory
from hotseat.relay.rules import too_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.relay.head import Field, RequestHead
    from hotseat.relay.relay import Relay
    from hotseat.terms import Bytes, Instant, Seconds

NEVER: Instant = float("inf")
MOST_AHEAD: Bytes = 64 << 10
"""Of pipelined requests kept for later; beyond it the client must wait."""
LINGER_S: Seconds = 2.0
"""How long a refused client may go on sending before we close: closing at once could destroy the refusal."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Stage(Enum):
    """What we are reading."""

    BETWEEN = "between requests"
    HEAD = "head"
    BODY = "body"
    DISCARDING = "discarding"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Reply:
    """Our own answer to a request that goes nowhere; it waits for its turn like any other."""

    data: bytes
    keep_alive: bool


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_ahead",
        "_buffered_at_check",
        "_exchange",
        "_fields",
        "_is_advancing",
        "_is_full",
        "_left",
        "_most_bytes",
        "_overhead",
        "_parser",
        "_peer",
        "_queue",
        "_relay",
        "_request",
        "_stage",
        "_target",
        "_to_learn",
        "_transport",
        "_wants_continue",
        "deadline",
        "write",
    )

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._stage = Stage.BETWEEN
        self._peer = ""
        self._fields: list[Field] = []
        self._target = b""
        self._overhead: Bytes = 0
        """Read since the last byte of a body: heads, trailers and the sizes of chunks."""
        self._request: Request | None = None
        self._most_bytes = 0
        self._wants_continue = False
        self._left: Bytes = 0
        """Of a body whose end is found by counting."""
        self._to_learn: tuple[bytes, int | None] | None = None
        self._queue: deque[Request | Reply] = deque()
        self._exchange: Exchange | None = None
        self._ahead = b""
        self._is_advancing = False
        self._is_full = False
        self._buffered_at_check = 0
        self.deadline: Instant = NEVER

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write: Callable[[bytes], None] = self._transport.write
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else "local"
        if not self._relay.join(self):
            text = "too many connections (limits.connections). Ask again in a moment."
            return self._say(self._refusal(Busy(text, retry_after=1), None, keep_alive=False))
        self._expect_within(self._relay.rules.limits.header_timeout_s)
        # Accepted in the very moment the house began to close.
        return self.drain() if self._relay.is_draining else None

    def data_received(self, data: bytes) -> None:
        if self._stage is Stage.DISCARDING:
            return None
        if not self._is_free:
            return self._keep_for_later(data)
        return self._feed(data)

    def eof_received(self) -> None:
        """A hang-up. The transport would tell of the loss only after the client had read all that was written."""
        self._abandon()
        self._stage = Stage.DISCARDING
        self._drop_queue()
        self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage = Stage.CLOSED
        self.deadline = NEVER
        self._relay.part(self)
        self._abandon()
        if self._request is not None:
            self._relay.forget_body(self._request.body)
        self._drop_queue()

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
            return self._exchange.client_has_room()
        if self._stage is Stage.DISCARDING:
            return self._expect_within(LINGER_S)
        self._expect_rest()
        return self._advance()

    # Reading

    def _feed(self, data: bytes) -> None:
        while data:
            if self._left:
                data = self._count(data)
            elif self._stage is Stage.BETWEEN and (rest := self._recognise(data)) is not None:
                data = rest
            else:
                data = self._parse(data)
        self._advance()

    def _recognise(self, data: bytes) -> bytes | None:
        """Begin a request whose head was read before; None if llhttp must read it."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        key, length = split_length(data[:end])
        known = self._relay.known_requests().recall(key)
        if known is None or (length or 0) > known.most_bytes:
            self._to_learn = (key, length)
            return None
        request = known.anew(self._relay.rules.client_of(known.head, self._peer), self._relay.now())
        body_end = end + (length or 0)
        if len(data) >= body_end:
            if length:
                request.body.add(data[end:body_end])
            self._complete(request)
            return data[body_end:]
        self._request, self._most_bytes = request, known.most_bytes
        self._stage = Stage.BODY
        self._left = length or 0
        return self._count(data[end:])

    def _count(self, data: bytes) -> bytes:
        """Take what belongs to the present body; returns the rest."""
        part, rest = data[: self._left], data[self._left :]
        self._left -= len(part)
        self.on_body(part)
        if not self._left and self._request is not None:
            self._complete(self._request)
        return rest

    def _parse(self, data: bytes) -> bytes:
        """Hand bytes to llhttp; returns those that it must be given once more."""
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._stage is Stage.HEAD:
                return self._without_offer(data[upgrade.args[0] :])
        except httptools.HttpParserError as problem:
            self._give_up(ClientError(f"the request is malformed: {problem}"))
        if self._stage in (Stage.HEAD, Stage.BODY):
            self._check_overhead()
        return b""

    def _without_offer(self, rest: bytes) -> bytes:
        """A request that offered another protocol (h2c), as the plain one it also is."""
        lines = [b"%b: %b" % (name, value) for name, value in self._fields if name.lower() != b"upgrade"]
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        self._to_learn = None
        self._parser = httptools.HttpRequestParser(self)
        self._overhead = 0
        return b"%b %b HTTP/%b\r\n%b\r\n\r\n%b" % (method, self._target, version, b"\r\n".join(lines), rest)

    def _check_overhead(self) -> None:
        if self._overhead > self._relay.rules.limits.header:
            self._give_up(self._head_too_large())

    def _keep_for_later(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) > MOST_AHEAD:
            self._transport.pause_reading()

    # llhttp: callbacks never raise, or the error would come back as a malformed request

    def on_message_begin(self) -> None:
        self._fields, self._target = [], b""
        self._request = None
        if self._stage is not Stage.DISCARDING:
            self._stage = Stage.HEAD
            self._expect_within(self._relay.rules.limits.header_timeout_s)

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is Stage.HEAD:
            self._fields.append((name, value))
        elif self._stage is Stage.BODY:  # a trailer: counted, never merged into the head
            self._overhead += len(name) + len(value)
            self._check_overhead()

    def on_headers_complete(self) -> None:
        if self._stage is not Stage.HEAD or self._offers_another_protocol():
            return
        self._stage = Stage.BODY
        head: RequestHead | None = None
        try:
            self._check_head_size()
            head = read_head(self._parser.get_method(), self._target, self._parser.get_http_version(), self._fields)
            self._open(head)
        except HotseatError as error:
            self._refuse_unread(error, head)

    def on_body(self, part: bytes) -> None:
        self._overhead = 0
        if self._request is None or self._stage is not Stage.BODY:
            return
        self._expect_within(self._relay.rules.limits.body_timeout_s)
        try:
            self._keep(self._request.body, part)
        except HotseatError as error:
            self._give_up(error)

    def on_message_complete(self) -> None:
        if self._stage is not Stage.BODY:
            return None
        request, to_learn = self._request, self._to_learn
        self._to_learn = None
        if request is None:
            return self._rest()
        request.keep_alive = self._parser.should_keep_alive()
        if to_learn is not None:
            self._learn(request, *to_learn)
        return self._complete(request)

    def _complete(self, request: Request) -> None:
        self._queue.append(request)
        self._rest()

    def _rest(self) -> None:
        """A request has been read; the next one may come."""
        self._request = None
        self._stage = Stage.BETWEEN
        self._overhead = 0
        self._wants_continue = False
        self.deadline = NEVER

    def _learn(self, request: Request, key: bytes, length: int | None) -> None:
        if not may_be_learned(request.head, length):
            return
        may_spool = not must_stay_in_memory(request.head, request.destination)
        known = KnownRequest(
            request.head, request.destination, request.verdict, self._most_bytes, may_spool, request.keep_alive
        )
        self._relay.known_requests().learn(key, known)

    def _offers_another_protocol(self) -> bool:
        """llhttp takes the rest of such a connection for the other protocol; we stay with HTTP/1.1."""
        if not self._parser.should_upgrade():
            return False
        if self._parser.get_method() == b"CONNECT":
            self._give_up(NotImplementedHere("hotseat is no tunnel: CONNECT is not understood here"))
        elif any(name.lower() == b"upgrade" and value.lower() == b"websocket" for name, value in self._fields):
            self._give_up(NotImplementedHere("websockets are not relayed yet"))
        return True

    # A head is complete

    def _check_head_size(self) -> None:
        """A head may have come in one piece, perhaps with much of its body, so only its own bytes count."""
        overhead, self._overhead = self._overhead, 0
        most = self._relay.rules.limits.header
        if overhead > most and self._head_size() > most:
            raise self._head_too_large()

    def _head_size(self) -> Bytes:
        return len(self._target) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self._fields)

    def _open(self, head: RequestHead) -> None:
        rules = self._relay.rules
        rules.check_sender(head)
        if preflight := rules.cors.preflight(head):
            return self._queue.append(Reply(preflight, self._parser.should_keep_alive()))
        verdict = rules.authorize(head)
        destination = find_road(head.method, head.target, self._relay.dispatcher.catalog)
        self._most_bytes = rules.most_bytes(head, destination)
        body = Body(may_spool=not must_stay_in_memory(head, destination))
        client = rules.client_of(head, self._peer)
        self._request = Request(head, destination, verdict, body, client, self._relay.now())
        self._wants_continue = head.wants_continue and head.has_body
        self._expect_rest()
        return self._continue_if_it_is_its_turn()

    def _continue_if_it_is_its_turn(self) -> None:
        if self._wants_continue and self._exchange is None and not self._queue:
            self._wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _keep(self, body: Body, part: bytes) -> None:
        """Add what was read to the body, as long as there is room for it."""
        try:
            body.add(part)
        except OSError as problem:
            text = f"the upload cannot be kept on disk: {problem.strerror}. Make room for temporary files."
            raise HotseatError(text) from problem
        if body.size > self._most_bytes:
            raise too_large(self._most_bytes)
        if not self._relay.has_memory_for(body):
            raise Busy("too many large requests at once. Ask again in a moment.", retry_after=1)

    # Refusing

    def _refuse_unread(self, error: HotseatError, head: RequestHead | None) -> None:
        """Refuse at the head. Without a body to skip the connection stays usable."""
        if head is None or head.has_body:
            return self._give_up(error, head)
        keep_alive = self._parser.should_keep_alive()
        return self._queue.append(self._refusal(error, head, keep_alive=keep_alive))

    def _give_up(self, error: HotseatError, head: RequestHead | None = None) -> None:
        """Refuse and read no further: where this request ends is unknown or too far away."""
        if self._stage in (Stage.DISCARDING, Stage.CLOSED):
            return
        if self._request is not None:
            head = self._request.head
            self._relay.forget_body(self._request.body)
            self._request = None
        self._stage = Stage.DISCARDING
        self._left = 0
        self._wants_continue = False
        self.deadline = NEVER
        self._queue.append(self._refusal(error, head, keep_alive=False))

    def _refusal(self, error: HotseatError, head: RequestHead | None, *, keep_alive: bool) -> Reply:
        if head is None:
            return Reply(answer(error, Dialect.TEXT, close=not keep_alive), keep_alive)
        rules = self._relay.rules
        dialect = dialect_for(head, rules.error_format)
        told = answer(error, dialect, close=not keep_alive, head_only=head.method == b"HEAD")
        return Reply(rules.cors.readable(told, head), keep_alive)

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head is larger than {self._relay.rules.limits.header} bytes (limits.header)")

    def _say(self, reply: Reply) -> None:
        self._transport.write(reply.data)
        if not reply.keep_alive:
            self._linger()

    def _linger(self) -> None:
        """Say that we are done, let the client finish its sentence, then close."""
        self._stage = Stage.DISCARDING
        self._drop_queue()
        self._buffered_at_check = 0  # whoever still reads its answer has as much time for it as anybody
        self._transport.write_eof()
        self._transport.resume_reading()  # it may have sent more than we keep; left unread, that would reset the answer
        self._expect_within(LINGER_S)

    # Serving, in order

    def _advance(self) -> None:
        """Serve what is complete. A loop, not a recursion: many refused requests may come in one read."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._is_free and self._stage is not Stage.CLOSED and self._next():
                pass
        finally:
            self._is_advancing = False

    @property
    def _is_free(self) -> bool:
        """Nothing is being answered, and the client has taken what was: else its answers would pile up here."""
        return self._exchange is None and not self._is_full

    def _next(self) -> bool:
        """Take one step; False when there is nothing to do before more bytes arrive."""
        if self._queue:
            self._serve(self._queue.popleft())
            return True
        if self._ahead and self._stage is not Stage.DISCARDING:
            ahead, self._ahead = self._ahead, b""
            self._transport.resume_reading()
            self._feed(ahead)
            return True
        self._continue_if_it_is_its_turn()
        if self._stage is Stage.BETWEEN:
            self._expect_within(self._relay.rules.limits.idle_timeout_s)
        return False

    def _serve(self, item: Request | Reply) -> None:
        if isinstance(item, Reply):
            return self._say(item)
        self.deadline = NEVER  # a next request may be half read; its time runs on when this one is answered
        self._exchange = Exchange(self._relay, self, item, self._peer)
        return self._exchange.begin()

    def _drop_queue(self) -> None:
        for item in self._queue:
            if isinstance(item, Request):
                self._relay.forget_body(item.body)
        self._queue.clear()

    # The exchange's side

    def refuse(self, error: HotseatError, *, keep_alive: bool) -> None:
        assert self._exchange is not None
        self._transport.write(self._refusal(error, self._exchange.request.head, keep_alive=keep_alive).data)

    def exchange_ended(self, *, keep_alive: bool) -> None:
        self._exchange = None
        if not keep_alive:
            return self._linger()
        self._expect_rest()
        self._advance()
        if self._relay.is_draining:
            self.drain()
        return None

    def cut(self, last_words: bytes, *, looks_complete: bool) -> None:
        """Break off visibly: without its last chunk, or by a reset where a clean end would look like the whole."""
        self._exchange = None
        self._stage = Stage.DISCARDING
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

    # Time

    def _expect_within(self, seconds: Seconds) -> None:
        self.deadline = self._relay.now() + seconds

    def _expect_rest(self) -> None:
        """The time of a request that is half read runs only while we read."""
        limits = self._relay.rules.limits
        if self._stage is Stage.HEAD:
            self._expect_within(limits.header_timeout_s)
        elif self._stage is Stage.BODY:
            self._expect_within(limits.body_timeout_s)

    def time_is_up(self) -> None:
        """Called when the deadline has passed."""
        self.deadline = NEVER
        if self._transport.get_write_buffer_size():
            return self._client_reads_slowly()
        if self._stage in (Stage.HEAD, Stage.BODY):
            self._give_up(TooSlow(f"the rest of the request did not come in time ({self._stage.value})"))
            return self._advance()
        return self._transport.close()

    def _client_reads_slowly(self) -> None:
        """A client that takes nothing must not hold a model for ever; one that takes little may go on."""
        buffered = self._transport.get_write_buffer_size()
        if buffered >= self._buffered_at_check > 0:
            return self.abort()
        self._buffered_at_check = buffered
        return self._expect_within(self._relay.rules.limits.idle_timeout_s)

    def abort(self) -> None:
        """Break off at once, visibly."""
        self._abandon()
        reset_on_close(self._transport)
        self._transport.abort()

    def drain(self) -> None:
        """No more requests on this connection: close it now if it is idle, else after its answer."""
        if self._exchange is None and not self._queue and self._stage is not Stage.BODY:
            self._transport.close()


def reset_on_close(transport: asyncio.Transport) -> None:
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
