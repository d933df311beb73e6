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
    from collections.abc import Callable

    from hotseat.activity.recent import Activity
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address, Seconds
    from hotseat.relay.access.policy import Policy

log = logging.getLogger(__name__)

BACKLOG = 4096
AT_A_TIME = 64
"""Connections that are accepted before others are served again."""
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
        """Connections that were accepted and are not reported yet, TLS handshakes and their listeners."""
        self._listeners: list[Listener | TlsListener] = []

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
        self._listeners.append(Listener(partial(ClientConnection, context, self.connections), self._tasks, sock))

    async def drain(self, within: Seconds) -> None:
        """Stop accepting; return when every client is gone, after `within` seconds at the latest."""
        for context in self._contexts():
            context.closes_idle = True
        self._stop_accepting()
        await self.connections.drain(within)

    async def finish(self, within: Seconds, management: Address) -> None:
        """Another process accepts from now on: serve the open connections until their clients leave.

        An idle client may send one more request: closing its connection could cross with it. `management` is the API
        of the other process.
        """
        for context in self._contexts():
            context.management = management
        self._stop_accepting()
        if accepted := list(self._tasks):
            await asyncio.wait(accepted, timeout=self.context.policy.limits.header_timeout_s)
        await self.connections.drain(within)

    def _stop_accepting(self) -> None:
        for context in self._contexts():
            context.is_draining = True
        self._close_listeners()

    def _contexts(self) -> list[Context]:
        return [self.context] if self._ollamas is None else [self.context, self._ollamas]

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


class Listener:
    """Accepts connections at one socket. After `close` none is lost: those that were accepted are among the tasks.

    The event loops' own servers drop a connection that is accepted just before they are closed.
    """

    def __init__(self, connection: Callable[[], ClientConnection], tasks: Tasks, sock: socket.socket) -> None:
        self._connection, self._tasks, self._socket = connection, tasks, sock
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        sock.listen(BACKLOG)
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
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # for instance without free descriptors
                self._loop.remove_reader(self._socket)
                self._pause = self._loop.call_later(AGAIN_S, self._go_on)
                return
            sock.setblocking(False)
            self._tasks.start(self._loop.connect_accepted_socket(self._connection, sock), "connect")


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
