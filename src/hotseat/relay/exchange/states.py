"""The states of an exchange. Each owns its timer and its connection, and handles what can happen in it.

A request that finds its model ready and a connection idle goes straight to `Sent`, and one whose response arrives in
one piece ends there: nothing is allocated for the states it skips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.errors import HotseatError, UpstreamError
from hotseat.relay.exchange.exchange import QUEUED, Done, Queued, State
from hotseat.relay.exchange.framers import Verbatim
from hotseat.relay.exchange.response_start import is_ordinary, ordinary_bytes, special_response
from hotseat.relay.exchange.tracing import note_first_token
from hotseat.relay.http.fields import SWITCHING
from hotseat.relay.upstream.kernel import is_dying

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from hotseat.identifiers import Address, Bytes, Instant, Seconds
    from hotseat.relay.exchange.exchange import Exchange
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.exchange.token_estimate import Response
    from hotseat.relay.http.response_head import ResponseHead
    from hotseat.relay.upstream.connection import UpstreamConnection


def connect(exchange: Exchange, address: Address) -> None:
    connection = exchange.context.pool.take(address)
    if connection is not None:
        send(exchange, connection)
    else:
        exchange.state = Connecting(exchange, address)


def send(exchange: Exchange, connection: UpstreamConnection) -> None:
    target, accounting, request = exchange.target, exchange.accounting, exchange.request
    sent = exchange.state = connection.user = Sent(exchange, connection)
    exchange.was_sent = True
    if target.limit_s is not None and accounting.limit is None:
        accounting.limit = exchange.context.later(target.limit_s, exchange.run, _used_too_long, exchange)
    head = target.head(exchange, connection.address)
    connection.send(sent, head, request.body, expects_body=request.head.method != b"HEAD")
    if exchange.framer is not None and exchange.client.is_full:
        connection.pause()


def _used_too_long(exchange: Exchange) -> None:
    used = f"{exchange.target.label} was used for {exchange.target.limit_s:g} s"
    exchange.fail(UpstreamError(f"{used}, the limit for one request (maxRequestDuration)."))


class Connecting(State):
    """A connection to the upstream is being opened."""

    __slots__ = ("_exchange", "_task")

    def __init__(self, exchange: Exchange, address: Address) -> None:
        self._exchange = exchange
        timeouts = exchange.target.timeouts
        self._task = exchange.context.pool.connect(address, self._connected, self._failed, timeouts)

    def cancel(self) -> None:
        self._task.cancel()

    def _connected(self, connection: UpstreamConnection) -> None:
        upstream = self._exchange.upstream
        # Its listener may briefly outlive its connections. Behind a script, another server may listen by now.
        if upstream is not None and upstream.pid is not None and is_dying(upstream.pid):
            connection.close()
            return self._failed("it is exiting")
        return self._exchange.run(send, self._exchange, connection)

    def _failed(self, problem: str) -> None:
        self._exchange.run(self._exchange.target.unreachable, self._exchange, problem)


class Connected(State):
    """It uses a connection, which reports to it."""

    __slots__ = ("_connection", "_exchange")
    write: Callable[[bytes], None]

    def __init__(self, exchange: Exchange, connection: UpstreamConnection) -> None:
        self._exchange = exchange
        self._connection = connection

    def cancel(self) -> None:
        if self._connection.user is self:
            self._connection.release()

    def last_piece(self) -> object:
        return self._connection.last_piece()

    def response(self) -> Response:
        return self._connection.reader

    def client_is_full(self) -> None:
        self._connection.pause()

    def client_is_writable(self) -> None:
        self._connection.resume()

    # Called by the connection

    @property
    def needs_decoded_body(self) -> bool:
        """Is the upstream's framing of the body not the client's?"""
        exchange = self._exchange
        return exchange.request.head.http10 or exchange.framer is not None or exchange.request.translation is not None

    @property
    def only_reads(self) -> bool:
        return self._exchange.request.head.method in (b"GET", b"HEAD")

    @property
    def server_is_exiting(self) -> bool:
        upstream = self._exchange.upstream
        return upstream is not None and upstream.shown_pid is not None and is_dying(upstream.shown_pid)

    def failed(self, error: UpstreamError) -> None:
        self._exchange.run(self._fail, f"failed: {error.message}.")

    def crashed(self, problem: Exception) -> None:
        if isinstance(problem, HotseatError):  # no bug: the response takes too much memory
            self._exchange.cut(problem)
        else:
            self._exchange.crashed(problem)

    def _unexpected(self, *args: Any, **kwargs: Any) -> None:
        raise AssertionError(f"{type(self).__name__} does not expect this")

    head_received = switched = ended = lost = _unexpected

    def upstream_is_full(self) -> None: ...
    def upstream_is_writable(self) -> None: ...
    def _fail(self, how: str) -> None:
        self._exchange.fail(UpstreamError(f"{self._exchange.target.label} {how}"))


class Sent(Connected):
    """The upstream has the request, and has not responded."""

    __slots__ = ("_status", "_timer")

    def __init__(self, exchange: Exchange, connection: UpstreamConnection) -> None:
        self._exchange = exchange
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        within = exchange.target.timeouts.response_header_s
        if within is not None:
            self._timer = exchange.context.later(within, exchange.run, self._too_slow, within)

    def cancel(self) -> None:
        self._stop_timer()
        super().cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self, within: Seconds) -> None:
        self._fail(f"did not respond within {within:g} s (timeouts.responseHeader).")

    def lost(self, *, may_retry: bool) -> None:
        exchange, address = self._exchange, self._connection.address
        self._stop_timer()
        if self.server_is_exiting:
            exchange.context.pool.leave(address)
        if may_retry:
            exchange.state = Connecting(exchange, address)
        else:
            if (hop := exchange.accounting.hop) is not None:
                hop.broke_off()
            self._fail(f"closed the connection before it responded.{exchange.target.hint}")

    # The response

    def head_received(self, head: ResponseHead, length: Bytes | None, data: bytes, *, is_complete: bool) -> None:
        exchange, reader = self._exchange, self._connection.reader
        framer: Framer | None = None
        if head.tells_of_host and self._is_turned_away(head):
            return
        if not is_ordinary(exchange, head):
            framer, start = special_response(exchange, head, length, data, reader)
        else:
            start = ordinary_bytes(exchange, head, length, data)
            if not is_complete:
                framer = Verbatim(exchange.client, head, keep_alive=True, reader=reader)
        if self._timer is not None:
            self._stop_timer()
        exchange.accounting.first_byte_at = exchange.context.now()
        if framer is None:
            self._status = head.status
        else:
            exchange.framer = framer
            streaming = self._connection.user = exchange.state = Streaming(exchange, self._connection, framer)
            if (tracer := exchange.context.tracer) is not None and head.is_event_stream:
                note_first_token(exchange.context, tracer, exchange.request, streaming, has_begun=bool(data))
        exchange.client.write(start)

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        """The whole response arrived with its head."""
        self._exchange.finished(self._status, now, pieces)
        self._exchange.client.exchange_ended(keep_alive=True, now=now)

    def _is_turned_away(self, head: ResponseHead) -> bool:
        """Did a host do nothing for the request? Then the next one gets it."""
        exchange, hop = self._exchange, self._exchange.accounting.hop
        if hop is None or not hop.is_turned_away(head):
            return False
        self.cancel()
        exchange.state, exchange.was_sent = QUEUED, False
        if head.is_failed_start:
            hop.not_loaded(head.failed_start)
        else:
            hop.turned_away(head.unproven)
        return True

    def switched(self, head: ResponseHead, data: bytes) -> None:
        exchange, connection = self._exchange, self._connection
        if not exchange.request.head.is_websocket:
            raise UpstreamError("the upstream switched protocols without being asked")
        self._stop_timer()
        _, start = special_response(exchange, head, None, b"", connection.reader)
        exchange.accounting.first_byte_at = exchange.context.now()
        exchange.client.write(start)
        connection.user = exchange.state = Tunnel(exchange, connection)
        exchange.client.become_tunnel()
        if data:
            connection.data_received(data)


class Streaming(Connected):
    """The response has begun."""

    __slots__ = ("_framer", "write")

    def __init__(self, exchange: Exchange, connection: UpstreamConnection, framer: Framer) -> None:
        self._exchange = exchange
        self._connection = connection
        self._framer = framer
        self.write = framer.write

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        if (problem := self._framer.problem_at_end()) is not None:
            return self.failed(problem)
        self._exchange.finished(self._framer.status, now, pieces)
        return self._framer.end(now)

    def lost(self, *, may_retry: bool) -> None:
        self._fail(f"closed the connection in the middle of its response.{self._exchange.target.hint}")


class Tunnel(Connected):
    """A websocket: bytes pass both ways, with the lease held."""

    __slots__ = ()

    def from_client(self, data: bytes) -> None:
        self._exchange.client.tunnel_used()
        self._connection.forward(data)

    def write(self, data: bytes) -> None:
        self._exchange.client.tunnel_used()
        self._exchange.client.write(data)

    def upstream_is_full(self) -> None:
        self._exchange.client.hold()

    def upstream_is_writable(self) -> None:
        self._exchange.client.go_on()

    def lost(self, *, may_retry: bool) -> None:
        """The upstream closed the tunnel."""
        self._exchange.finished(SWITCHING, self._exchange.context.now(), ())
        self._exchange.client.tunnel_ended()


TRANSITIONS: dict[type[State], tuple[tuple[type[State], str], ...]] = {
    Queued: (
        (Connecting, "a lease was granted, or none is needed; no connection is idle"),
        (Sent, "the same, and a connection is idle"),
        (Done, "it was refused, or the client left"),
    ),
    Connecting: (
        (Sent, "the connection is open"),
        (Queued, "the server or host is unreachable: ask again, or ask another host"),
        (Done, "it failed, or the client left"),
    ),
    Sent: (
        (Streaming, "the response began"),
        (Tunnel, "the upstream switched to a websocket"),
        (Connecting, "an idle connection turned out to be dead, and nothing was delivered"),
        (Queued, "a host turned the request away"),
        (Done, "the response arrived in one piece, it failed, or the client left"),
    ),
    Streaming: ((Done, "the response is complete, was cut, or the client left"),),
    Tunnel: ((Done, "one side closed it"),),
    Done: (),
}
