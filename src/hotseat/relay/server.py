"""The relay: listens, and drains its connections on shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from hotseat.relay.access.authority import host_of
from hotseat.relay.context import Context
from hotseat.relay.downstream.connection import LINGER_S, ClientConnection
from hotseat.relay.downstream.connections import Connections
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import ssl

    from hotseat.activity.recent import Activity
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address, Seconds
    from hotseat.relay.access.policy import Policy

log = logging.getLogger(__name__)

BACKLOG = 4096
AGAIN_S: Seconds = 0.1
"""Delay after a failed accept, for instance without free descriptors."""


class Relay:
    def __init__(
        self,
        dispatcher: Dispatcher,
        policy: Policy,
        management: Address,
        activity: Activity,
        *,
        most_connections: int | None = None,
    ) -> None:
        """`most_connections`: how many fit into the process's file descriptors; None: any number."""
        self.context = Context(dispatcher, policy, management, activity)
        self._ollamas: Context | None = None
        """Of the connections to the address for Ollama's clients; None: there is none."""
        self.connections = Connections(self.context, most_connections)
        self._tasks = Tasks()
        """TLS handshakes and their listeners."""
        self._listeners: list[asyncio.Server | TlsListener] = []

    async def listen(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self.context.scheme = b"http" if tls is None else b"https"
        for sock in sockets:
            if tls is None:
                await self._accept(sock, self.context)
            else:
                _send_without_delay(sock)
                self._listeners.append(TlsListener(self.context, self.connections, self._tasks, sock, tls))

    async def listen_as_ollama(self, sockets: list[socket.socket]) -> None:
        """At the address for Ollama's clients: the same rules, and plain HTTP."""
        self._ollamas = self.context.at_ollamas_address()
        for sock in sockets:
            await self._accept(sock, self._ollamas)

    async def _accept(self, sock: socket.socket, context: Context) -> None:
        _send_without_delay(sock)
        accept = partial(ClientConnection, context, self.connections)
        server = await asyncio.get_running_loop().create_server(accept, sock=sock, backlog=BACKLOG)
        self._listeners.append(server)

    async def drain(self, within: Seconds) -> None:
        """Stop accepting; return when every client is gone, after `within` seconds at the latest."""
        self.context.is_draining = True
        if self._ollamas is not None:
            self._ollamas.is_draining = True
        self._close_listeners()
        await self.connections.drain(within)

    async def aclose(self) -> None:
        self._close_listeners()
        await self._tasks.aclose()
        self.connections.close()
        await self.context.pool.aclose()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def change_policy(self, policy: Policy) -> None:
        """Apply a new policy, also to requests in progress whose key is gone or no longer allows them."""
        self.context.policy = policy
        if self._ollamas is not None:
            self._ollamas.policy = policy.at_ollamas_address()
        if ended := self.connections.judge_again():
            log.warning("requests were aborted because their keys no longer allow them count=%d", ended)


def _send_without_delay(sock: socket.socket) -> None:
    """Accepted sockets inherit this: uvloop sets it itself, asyncio only for some sockets."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class TlsListener:
    """Accepts TLS connections at one socket: counts them before the handshake, and limits its duration.

    The event loops' own servers report a connection only after its handshake, for which they wait a minute.
    """

    def __init__(
        self, context: Context, connections: Connections, tasks: Tasks, sock: socket.socket, tls: ssl.SSLContext
    ) -> None:
        self._context = context
        self._connections = connections
        self._tasks = tasks
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._accepting = tasks.start(self._accept(sock), "accept")
        self._accepting.add_done_callback(lambda _: sock.close())  # an accept in progress would keep it open

    def close(self) -> None:
        self._accepting.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                sock, name = await self._loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(AGAIN_S)
                continue
            peer = host_of(name)
            if self._connections.arrived(peer) is None:
                self._tasks.start(self._handshake(sock, peer), "TLS handshake")
            else:  # no response is possible without TLS
                self._connections.count.remove(peer)
                sock.close()

    async def _handshake(self, sock: socket.socket, peer: str) -> None:
        """The connection takes over the count, or the count is reverted."""
        client = ClientConnection(self._context, self._connections, is_counted=True)
        try:
            with suppress(OSError):  # includes ssl.SSLError; there is nobody to report it to
                await self._loop.connect_accepted_socket(
                    lambda: client,
                    sock,
                    ssl=self._tls,
                    ssl_handshake_timeout=self._context.policy.limits.header_timeout_s,
                    ssl_shutdown_timeout=LINGER_S,
                )
        finally:
            if not client.peer:
                self._connections.count.remove(peer)
