"""The requests of one connection, in the order of their arrival, until they are served.

While a request is being served, further input goes to a small buffer instead of pausing the transport: a paused
transport reports neither EOF nor loss of its connection, and a disconnect must be seen within milliseconds. A client
that overflows the buffer gets the responses to what was read, then the connection closes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import TooSlow
from hotseat.relay.downstream.refusals import Reply, refusal
from hotseat.relay.downstream.request_reader import RequestReader
from hotseat.relay.downstream.stages import BETWEEN, BODY, CLOSED, HEAD, LOST, OPEN
from hotseat.relay.exchange.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.identifiers import Bytes, Instant, Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.stages import Stage
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.http.request_head import RequestHead

NEVER: Instant = float("inf")
MOST_AHEAD: Bytes = 64 << 10
"""Limit of buffered pipelined requests; beyond it nothing more is read from the client."""


class Connection(Protocol):
    """The connection whose requests these are."""

    stage: Stage
    exchange: Exchange | None
    is_full: bool
    deadline: Instant
    write: Callable[[bytes], None]

    def begin(self, request: Request) -> None: ...
    def reply(self, reply: Reply) -> None: ...
    def linger(self) -> None: ...
    def abort(self) -> None: ...
    def expect_within(self, seconds: Seconds) -> None: ...


class RequestQueue:
    __slots__ = ("_connection", "_context", "_is_advancing", "ahead", "items", "reader")

    def __init__(self, context: Context, connection: Connection, peer: str) -> None:
        self._context = context
        self._connection = connection
        self.reader = RequestReader(context, self, peer)
        self.items: deque[Request | Reply] = deque()
        self.ahead = b""
        """Bytes that were received while a request was being served."""
        self._is_advancing = False

    # Called by the reader

    def request_read(self, request: Request) -> None:
        """The usual case needs no queue: the previous request was answered long ago."""
        connection = self._connection
        if connection.exchange is None and not (connection.is_full or self.items or self._is_advancing):
            connection.begin(request)
        else:
            self.items.append(request)

    def request_answered(self, answer: bytes, *, keep_alive: bool) -> None:
        self.items.append(Reply(answer, keep_alive))

    def request_refused(self, error: HotseatError, head: RequestHead | None, *, keep_alive: bool) -> None:
        self.items.append(refusal(self._context, error, head, keep_alive=keep_alive))

    def body_awaited(self) -> None:
        if self.reader.wants_continue and self._connection.exchange is None and not self.items:
            self.reader.wants_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def expect_within(self, seconds: Seconds) -> None:
        """While a request is being served, the next one has no time limit."""
        if self._connection.exchange is None:
            self._connection.expect_within(seconds)

    def expect_nothing(self) -> None:
        if self._connection.exchange is None:
            self._connection.deadline = NEVER

    # Called by the connection

    def advance(self) -> None:
        """Serve complete requests. A loop, not recursion: one read may contain many refused requests."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._is_free() and self._next():
                pass
        finally:
            self._is_advancing = False

    def _is_free(self) -> bool:
        """Nothing is being served, and the client has read its responses: otherwise they would pile up here."""
        connection = self._connection
        return connection.exchange is None and not connection.is_full and connection.stage is not CLOSED

    def _next(self) -> bool:
        """Take one step; False if nothing can be done before more bytes arrive."""
        if self.items:
            self._serve(self.items.popleft())
            return True
        if self._connection.stage is not OPEN:
            return False
        if self.ahead:
            ahead, self.ahead = self.ahead, b""
            self.ahead = self.reader.feed(ahead)
            return True
        self._await_more()
        return False

    def _serve(self, item: Request | Reply) -> None:
        if isinstance(item, Reply):
            self._connection.reply(item)
        else:
            self._connection.begin(item)

    def _await_more(self) -> None:
        if self.reader.stage is LOST:
            return self._connection.linger()
        self.body_awaited()
        if self.reader.stage is BETWEEN:
            self._connection.expect_within(self._context.policy.limits.idle_timeout_s)
        return None

    def keep_for_later(self, data: bytes) -> None:
        if self.reader.stage is LOST:
            return
        self.ahead += data
        if len(self.ahead) > MOST_AHEAD:
            self._read_no_further()

    def _read_no_further(self) -> None:
        """What was read is still answered, then the connection closes. A tunnel cannot begin with bytes missing."""
        self.ahead = b""
        self.reader.forget()
        exchange = self._connection.exchange
        if exchange is not None and exchange.request.head.is_websocket:
            self._connection.abort()

    def expect_rest(self) -> None:
        """The timeout of a half-read request runs only while we read."""
        limits = self._context.policy.limits
        if self.reader.stage is HEAD:
            self._connection.expect_within(limits.header_timeout_s)
        elif self.reader.stage is BODY:
            self._connection.expect_within(limits.body_timeout_s)

    def refuse_slow(self) -> bool:
        """The client's time is up: refuse its half-read request; False if there is none."""
        if self._connection.stage is not OPEN or self.reader.stage not in (HEAD, BODY):
            return False
        part = self.reader.stage.value
        self.reader.give_up(TooSlow(f"the rest of the request did not arrive in time ({part})"))
        self.advance()
        return True

    def judge_again(self) -> int:
        """The policy has changed: refuse requests that it no longer allows; returns how many."""
        ended = 0
        for place, item in enumerate(self.items):
            if isinstance(item, Request) and (error := self._context.policy.objection(item, "")) is not None:
                self._context.forget(item)
                told = refusal(self._context, error, item.head, keep_alive=item.keep_alive, request_id=item.id)
                self.items[place] = told
                ended += 1
        return ended + self.reader.judge_again()

    def forget_all(self) -> None:
        """Drop further requests at once, because a client that does not read keeps the connection open."""
        self.reader.forget()
        for item in self.items:
            if isinstance(item, Request):
                self._context.forget(item)
        self.items.clear()
