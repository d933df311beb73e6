"""The states of an exchange. Each owns its timer and its connection, and handles what can happen in it.

A request that finds its model ready and a connection idle goes straight to `Sent`, and one whose response arrives in
one piece ends there: nothing is allocated for the states it skips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from hotseat.errors import UpstreamError
from hotseat.relay.exchange.framers import Verbatim
from hotseat.relay.exchange.parts import State
from hotseat.relay.exchange.response_start import is_ordinary, ordinary_bytes, special_response
from hotseat.relay.http.fields import SWITCHING
from hotseat.relay.upstream.kernel import is_dying

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from hotseat.identifiers import Address, Bytes, Instant, Seconds
    from hotseat.relay.exchange.early_stream import EarlyStream
    from hotseat.relay.exchange.framers import Framer
    from hotseat.relay.exchange.parts import Parts
    from hotseat.relay.http.response_head import ResponseHead
    from hotseat.relay.upstream.connection import UpstreamConnection


class Queued(State):
    """It waits for a lease, for hosts to agree, or for a moment before it asks again."""

    __slots__ = ("_timer",)

    def __init__(self, timer: asyncio.TimerHandle | None = None) -> None:
        self._timer = timer

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Dialling(State):
    """A connection to the upstream is being opened."""

    __slots__ = ("_exchange", "_task")

    def __init__(self, exchange: Parts, address: Address) -> None:
        self._exchange = exchange
        timeouts = exchange.target.timeouts
        self._task = exchange.context.pool.dial(address, self._connected, self._failed, timeouts)

    def cancel(self) -> None:
        self._task.cancel()

    def _connected(self, connection: UpstreamConnection) -> None:
        if server_is_exiting(self._exchange):  # its listener may briefly outlive its connections
            connection.close()
            return self._failed("it is exiting")
        return self._exchange.run(lambda: self._exchange.send(connection))

    def _failed(self, problem: str) -> None:
        exchange = self._exchange
        exchange.run(lambda: exchange.target.unreachable(exchange, problem))


class Connected(State):
    """It uses a connection, which reports to it."""

    __slots__ = ("_connection", "_exchange")
    write: Callable[[bytes], None]

    def __init__(self, exchange: Parts, connection: UpstreamConnection) -> None:
        self._exchange = exchange
        self._connection = connection

    def cancel(self) -> None:
        if self._connection.user is self:
            self._connection.release()

    def last_piece(self) -> object:
        return self._connection.last_piece()

    def client_is_full(self) -> None:
        self._connection.pause()

    def client_is_writable(self) -> None:
        self._connection.resume()

    # Called by the connection

    @property
    def needs_decoded_body(self) -> bool:
        """Does the client get the body without the upstream's chunks?"""
        return self._exchange.request.head.http10 or self._exchange.early is not None

    @property
    def only_reads(self) -> bool:
        """Can the request be repeated without side effects?"""
        return self._exchange.request.head.method in (b"GET", b"HEAD")

    @property
    def server_is_exiting(self) -> bool:
        return server_is_exiting(self._exchange)

    def head_received(self, head: ResponseHead, length: Bytes | None, data: bytes, *, is_complete: bool) -> None:
        self._unexpected("a head")

    def switched(self, head: ResponseHead, data: bytes) -> None:
        self._unexpected("another protocol")

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        self._unexpected("an end")

    def lost(self, *, may_retry: bool) -> None:
        self._unexpected("the end of the connection")

    def upstream_is_full(self) -> None: ...
    def upstream_is_writable(self) -> None: ...
    def failed(self, error: UpstreamError) -> None:
        exchange = self._exchange
        exchange.run(lambda: exchange.fail(UpstreamError(f"{exchange.target.label} failed: {error.message}.")))

    def crashed(self, problem: Exception) -> None:
        self._exchange.crashed(problem)

    def _broke_off(self, when: str) -> None:
        target = self._exchange.target
        self._exchange.fail(UpstreamError(f"{target.label} closed the connection {when}.{target.hint}"))

    def _unexpected(self, what: str) -> NoReturn:
        raise AssertionError(f"{type(self).__name__} does not expect {what}")


class Sent(Connected):
    """The upstream has the request, and has not responded."""

    __slots__ = ("_status", "_timer")

    def __init__(self, exchange: Parts, connection: UpstreamConnection) -> None:
        self._exchange = exchange
        self._connection = connection
        self._timer: asyncio.TimerHandle | None = None
        within = exchange.target.timeouts.response_header_s
        if within is not None:
            self._timer = exchange.context.later(within, exchange.run, lambda: self._too_slow(within))

    def cancel(self) -> None:
        self._stop_timer()
        super().cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self, within: Seconds) -> None:
        label = self._exchange.target.label
        self._exchange.fail(UpstreamError(f"{label} did not respond within {within:g} s (timeouts.responseHeader)."))

    def lost(self, *, may_retry: bool) -> None:
        exchange, address = self._exchange, self._connection.address
        self._stop_timer()
        if self.server_is_exiting:
            exchange.context.pool.leave(address)
        if not may_retry:
            return self._broke_off("before it responded")
        exchange.target.was_not_delivered(exchange)
        exchange.state = Dialling(exchange, address)
        return None

    # The response

    def head_received(self, head: ResponseHead, length: Bytes | None, data: bytes, *, is_complete: bool) -> None:
        exchange = self._exchange
        if head.tells_of_host and self._is_turned_away(head):
            return None
        if self._timer is not None:
            self._stop_timer()
        exchange.accounting.first_byte_at = exchange.context.now()
        if exchange.early is not None:
            return self._continue_early(exchange.early, head, data)
        if not is_ordinary(exchange, head):
            framer, start = special_response(exchange, head, length, self._is_between_chunks)
            self._stream(framer, head)
            return exchange.client.write(start + framer.framed(data))
        if is_complete:
            self._status = head.status
            exchange.has_begun = True
        else:
            framer = Verbatim(exchange.client, head, keep_alive=True, is_between_chunks=self._is_between_chunks)
            self._stream(framer, head)
        return exchange.client.write(ordinary_bytes(exchange, head, length, data))

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        """The whole response arrived with its head."""
        self._exchange.finished(self._status, now, pieces)
        self._exchange.client.exchange_ended(keep_alive=True, now=now)

    def _is_between_chunks(self) -> bool:
        return self._connection.reader.is_between_chunks

    def _is_turned_away(self, head: ResponseHead) -> bool:
        """Did a host do nothing for the request? Then the next one gets it."""
        exchange = self._exchange
        if not exchange.target.responded(exchange, head):
            return False
        self.cancel()
        exchange.state, exchange.was_sent = QUEUED, False
        assert exchange.accounting.hop is not None
        exchange.accounting.hop.turned_away(head.unproven)
        return True

    def _continue_early(self, early: EarlyStream, head: ResponseHead, data: bytes) -> None:
        early.head_received(head)
        self._stream(early, head)
        early.write(data)

    def _stream(self, framer: Framer, head: ResponseHead) -> None:
        exchange, connection = self._exchange, self._connection
        exchange.framer, exchange.has_begun = framer, True
        connection.user = exchange.state = Streaming(exchange, connection, framer, head)

    def switched(self, head: ResponseHead, data: bytes) -> None:
        exchange = self._exchange
        if not exchange.request.head.is_websocket:
            raise UpstreamError("the upstream switched protocols without being asked")
        self._stop_timer()
        exchange.accounting.first_byte_at = exchange.context.now()
        _, start = special_response(exchange, head, None, self._is_between_chunks)
        exchange.client.write(start)
        exchange.has_begun = True
        connection = self._connection
        connection.user = exchange.state = Tunnel(exchange, connection)
        exchange.client.become_tunnel()
        if data:
            connection.data_received(data)


class Streaming(Connected):
    """The response has begun."""

    __slots__ = ("_framer", "_head", "write")

    def __init__(self, exchange: Parts, connection: UpstreamConnection, framer: Framer, head: ResponseHead) -> None:
        super().__init__(exchange, connection)
        self._framer = framer
        self._head = head
        self.write = framer.write

    @property
    def is_event_stream(self) -> bool:
        return self._head.is_event_stream

    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None:
        self._exchange.finished(self._framer.status, now, pieces)
        self._framer.end(now)

    def lost(self, *, may_retry: bool) -> None:
        self._broke_off("in the middle of its response")


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


class Done(State):
    """The request is answered, refused, cut or abandoned, and everything is given back."""

    __slots__ = ()


QUEUED: Final[State] = Queued()
DONE: Final[State] = Done()
"""Shared: most exchanges need no timer to begin with, and none in the end."""

TRANSITIONS: dict[type[State], tuple[tuple[type[State], str], ...]] = {
    Queued: (
        (Dialling, "a lease was granted, or none is needed; no connection is idle"),
        (Sent, "the same, and a connection is idle"),
        (Done, "it was refused, or the client left"),
    ),
    Dialling: (
        (Sent, "the connection is open"),
        (Queued, "the server or host is unreachable: ask again, or ask another host"),
        (Done, "it failed, or the client left"),
    ),
    Sent: (
        (Streaming, "the response began"),
        (Tunnel, "the upstream switched to a websocket"),
        (Dialling, "an idle connection turned out to be dead, and nothing was delivered"),
        (Queued, "a host turned the request away"),
        (Done, "the response arrived in one piece, it failed, or the client left"),
    ),
    Streaming: ((Done, "the response is complete, was cut, or the client left"),),
    Tunnel: ((Done, "one side closed it"),),
    Done: (),
}


def server_is_exiting(exchange: Parts) -> bool:
    pid = exchange.upstream.pid if exchange.upstream is not None else None
    return pid is not None and is_dying(pid)
