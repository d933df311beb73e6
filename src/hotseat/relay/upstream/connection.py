"""One connection to an upstream: serves one exchange at a time and is idle in the pool between them.

The bytes of a response are relayed as they came, in the callback they came in. A connection is read once in each turn
of the event loop, so an upstream that sends without end holds up nobody else; whoever processes a read limits its cost.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from hotseat.errors import UpstreamError
from hotseat.relay.http.fields import SWITCHING
from hotseat.relay.http.response_head import IDLE_S
from hotseat.relay.upstream.kernel import is_untaken
from hotseat.relay.upstream.response_reader import Receiver, ResponseReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotseat.catalog.spec import Timeouts
    from hotseat.identifiers import Address, Bytes, Instant, Seconds
    from hotseat.relay.http.body import Body

LARGE: Bytes = 64 << 10
"""A larger body is sent as it is; a smaller one is joined to its head, which costs less than a second buffer."""


class Home(Protocol):
    """The pool that it is in while it is idle."""

    now: Callable[[], Instant]

    def put_back(self, connection: UpstreamConnection) -> None: ...
    def forget(self, connection: UpstreamConnection) -> None: ...


class User(Receiver, Protocol):
    """The exchange that uses the connection, in the state it is in."""

    @property
    def only_reads(self) -> bool: ...  # can the request be repeated without side effects?
    @property
    def server_is_exiting(self) -> bool: ...
    def ended(self, now: Instant, pieces: Sequence[bytes]) -> None: ...  # with the last parts of the response
    def lost(self, *, may_retry: bool) -> None: ...  # before the response was complete, or the end of a tunnel
    def failed(self, error: UpstreamError) -> None: ...
    def crashed(self, problem: Exception) -> None: ...  # a bug of ours
    def upstream_is_full(self) -> None: ...
    def upstream_is_writable(self) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class UpstreamConnection(asyncio.Protocol):
    address: Address
    reader: ResponseReader
    _home: Home
    _transport: asyncio.Transport = field(init=False)
    user: User | None = None
    _requests: int = 0
    _earlier: Bytes = 0
    """Bytes sent before the current request, and the size of that one."""
    _size: Bytes = 0
    _longest_idle_s: Seconds = IDLE_S
    _idle_until: Instant = 0.0
    _is_write_paused: bool = False
    _is_held: bool = False
    _body: Body | None = None
    """A spooled body that is not sent completely, and how much of it is."""
    _sent: Bytes = 0

    def keep_to(self, timeouts: Timeouts) -> None:
        """Limit the idle time as configured, and enable the kernel's keep-alive probes."""
        if timeouts.idle_s is not None:
            self._longest_idle_s = timeouts.idle_s
        sock: socket.socket = self._transport.get_extra_info("socket")
        with suppress(OSError):  # for instance of a closed socket, which is reported elsewhere
            if timeouts.keepalive_s is not None and not self.address.unix_path:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
                    if hasattr(socket, option):  # macOS has another name for the first, and its own default
                        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), max(1, int(timeouts.keepalive_s)))
            if timeouts.lost_s is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeouts.lost_s * 1000))

    # Called by its user

    def can_be_used(self, now: Instant) -> bool:
        return now < self._idle_until and not self._transport.is_closing()

    def last_piece(self) -> object:
        """The last data of the current response; None before that. A new object each time while we pause reading."""
        if self._is_held:
            return object()
        return self.reader.pieces[-1] if self.reader.pieces else None

    def send(self, user: User, head: bytes, body: Body, *, expects_body: bool = True) -> None:
        self.user = user
        self.reader.expects_body = expects_body
        self._requests += 1
        self._earlier, self._size = self._earlier + self._size, len(head) + body.size
        if body.is_spooled:
            self._transport.write(head)
            self._body, self._sent = body, 0
            self._send_more()
        elif body.size > LARGE:
            self._transport.writelines((head, body.whole()))
        else:
            self._transport.write(head + body.whole() if body.size else head)

    def forward(self, data: bytes) -> None:
        self._transport.write(data)

    def release(self) -> None:
        """The exchange ends before the response: the rest is useless."""
        self.user = None
        if self.reader.head.status == SWITCHING and not self._is_write_paused:
            self.close()  # the client's last bytes are still sent if the upstream takes them
        else:
            self._transport.abort()

    def close(self) -> None:
        self._transport.close()

    def pause(self) -> None:
        """The client cannot take more for now."""
        self._is_held = True
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        self._is_held = False
        self._read_on()

    def _read_on(self) -> None:
        if not self._is_held and not self._transport.is_closing():
            self._transport.resume_reading()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if (user := self.user) is None:
            return self.close()  # unexpected bytes
        if len(data) >= LARGE and not self._is_held:  # uvloop would go on reading within this turn
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)
        try:
            if self.reader.feed(data, user) and self.user is not None:
                self._complete(self.user)
        except Exception as problem:
            self._crash(user, problem)
        return None

    def pause_writing(self) -> None:
        self._is_write_paused = True
        if self.user is not None:
            self.user.upstream_is_full()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        user = self.user
        try:
            if user is not None:
                user.upstream_is_writable()
            self._send_more()
        except Exception as problem:
            self._crash(user, problem)

    def eof_received(self) -> None:
        """The upstream sends nothing more and will not read what is left to send."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        user, self.user = self.user, None
        if user is None:
            return self._home.forget(self)
        was_stale = not self.reader.has_begun and self._requests > 1
        try:
            if self.reader.ends_with_connection and exc is None and not user.server_is_exiting:
                user.ended(self._home.now(), self.reader.pieces)
            else:
                user.lost(may_retry=was_stale and (user.only_reads or self._is_untaken(exc)))
        except Exception as problem:
            user.crashed(problem)
        return None

    # End

    def _is_untaken(self, problem: Exception | None) -> bool:
        """Was it closed while idle, just as we used it again? TLS changes the number of bytes."""
        return not self.address.tls and is_untaken(self._transport.get_extra_info("socket"), self._earlier, problem)

    def _crash(self, user: User | None, problem: Exception) -> None:
        """The rest of the response is useless: the upstream's mistake, or a bug of ours."""
        self.user = None
        self._transport.abort()
        if isinstance(problem, UpstreamError) and user is not None:
            user.failed(problem)
        elif user is not None:
            user.crashed(problem)

    def _complete(self, user: User) -> None:
        self.user = None
        now = self._home.now()
        if self._is_held:
            self.resume()  # the last write may have paused us for a slow client
        if self._can_be_reused():
            self._idle_until = now + min(self.reader.head.idle_s, self._longest_idle_s)
            self._home.put_back(self)
        else:
            self._transport.abort()
        user.ended(now, self.reader.finish())

    def _can_be_reused(self) -> bool:
        """Not if the upstream responded without reading the whole request: it may never read the rest."""
        if self._body is not None or self._transport.get_write_buffer_size():
            return False
        head = self.reader.head
        # A server may wrongly send a body in response to HEAD.
        return head.keeps_alive and head.idle_s > 0 and self._requests < head.most_requests and self.reader.expects_body

    def _send_more(self) -> None:
        """Send a spooled body in parts, as fast as the upstream takes it."""
        while self._body is not None and not self._is_write_paused and not self._transport.is_closing():
            if piece := self._body.pieces_from(self._sent):
                self._sent += len(piece)
                self._transport.write(piece)
            else:
                self._body = None
