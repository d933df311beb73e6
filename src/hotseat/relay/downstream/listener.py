"""Accepts the connections of clients, with and without TLS."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hotseat.relay.access.authority import host_of
from hotseat.relay.downstream.connection import LINGER_S, ClientConnection
from hotseat.relay.downstream.limits import BEYOND_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from hotseat.identifiers import Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.connections import Connections
    from hotseat.relay.downstream.limits import Excess
    from hotseat.tasks import Tasks

    Admit = Callable[[socket.socket, Any], None]
    """Gets an accepted socket and the peer's address."""

AT_A_TIME = 64
"""Connections that are accepted before others are served again."""
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}
"""Seconds of silence before the kernel asks a client's, seconds between its questions, and their number."""
AGAIN_S: Seconds = 0.1
"""Delay after a failed accept, for instance without free descriptors."""


def probe(sock: socket.socket) -> None:
    """Let the kernel notice clients that are gone without closing their connections, as after a power failure.

    While a model server sends nothing, nobody else would, and the request would keep its model from leaving.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in PROBES.items():
        if hasattr(socket, option):  # macOS has another name for the first, and its own default
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Listener:
    """Accepts connections at a socket that listens. After `close` none is lost: `admit` has those that were accepted.

    The event loops' own ways to accept drop a connection that is accepted just before they are stopped.
    """

    def __init__(self, sock: socket.socket, admit: Admit) -> None:
        self._socket, self._admit = sock, admit
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            probe(sock)  # accepted sockets inherit it
        self._go_on()

    def close(self) -> None:
        """Safe to call twice."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _go_on(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_A_TIME):
            try:
                sock, name = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # for instance without free descriptors
                self._loop.remove_reader(self._socket)
                self._pause = self._loop.call_later(AGAIN_S, self._go_on)
                return
            sock.setblocking(False)
            self._admit(sock, name)


class PlainAdmission:
    """Connections without TLS."""

    def __init__(self, context: Context, connections: Connections, tasks: Tasks) -> None:
        self._connection = partial(ClientConnection, context, connections)
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()

    def admit(self, sock: socket.socket, _: Any) -> None:
        self._tasks.start(self._loop.connect_accepted_socket(self._connection, sock), "connect")


class TlsAdmission:
    """Connections with TLS: counts them before the handshake, and limits its duration.

    The event loops' own servers report a connection only after its handshake, for which they wait a minute.
    """

    def __init__(self, context: Context, connections: Connections, tasks: Tasks, tls: ssl.SSLContext) -> None:
        self._context, self._connections, self._tasks, self._tls = context, connections, tasks, tls
        self._loop = asyncio.get_running_loop()

    def admit(self, sock: socket.socket, name: Any) -> None:
        peer = host_of(name)
        excess = self._connections.arrived(peer)
        if excess is None or excess.is_read:
            self._tasks.start(self._handshake(sock, peer, excess), "TLS handshake")
        else:
            self._connections.count.remove(peer)
            sock.close()

    async def _handshake(self, sock: socket.socket, peer: str, excess: Excess | None) -> None:
        """The connection takes over the count, or the count is reverted."""
        client = ClientConnection(self._context, self._connections, is_counted=True, excess=excess)
        within = self._context.policy.limits.header_timeout_s if excess is None else BEYOND_S
        try:
            with suppress(OSError):  # includes ssl.SSLError; there is nobody to report it to
                await self._loop.connect_accepted_socket(
                    lambda: client,
                    sock,
                    ssl=self._tls,
                    ssl_handshake_timeout=within,
                    ssl_shutdown_timeout=LINGER_S,
                )
        finally:
            if not client.peer:
                self._connections.count.remove(peer)
