"""The relay: listens, and drains its connections on shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from hotseat.relay.context import Context
from hotseat.relay.downstream.connection import ClientConnection
from hotseat.relay.downstream.connections import Connections
from hotseat.relay.downstream.tls import BACKLOG, TlsListener
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import ssl

    from hotseat.activity.recent import InProgress
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import Address, ModelName, Seconds
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.context import ActivityLog

log = logging.getLogger(__name__)


class Relay:
    def __init__(
        self,
        dispatcher: Dispatcher,
        policy: Policy,
        management: Address,
        activity: ActivityLog,
        *,
        most_connections: int | None = None,
    ) -> None:
        """`most_connections`: how many fit into the process's file descriptors; None: any number."""
        self.context = Context(dispatcher, policy, management, activity)
        self.connections = Connections(self.context, most_connections)
        self._tasks = Tasks()
        """TLS handshakes and their listeners."""
        self._listeners: list[asyncio.Server | TlsListener] = []

    async def listen(self, sockets: list[socket.socket], tls: ssl.SSLContext | None = None) -> None:
        self.context.scheme = b"http" if tls is None else b"https"
        for sock in sockets:
            # Accepted sockets inherit this: uvloop sets it itself, asyncio only for some sockets.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is None:
                self._listeners.append(await self._listen_plain(sock))
            else:
                self._listeners.append(TlsListener(self.context, self.connections, self._tasks, sock, tls))

    async def _listen_plain(self, sock: socket.socket) -> asyncio.Server:
        def accept() -> ClientConnection:
            return ClientConnection(self.context, self.connections)

        return await asyncio.get_running_loop().create_server(accept, sock=sock, backlog=BACKLOG)

    async def drain(self, within: Seconds) -> None:
        """Stop accepting; return when every client is gone, after `within` seconds at the latest."""
        self.context.is_draining = True
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
        if ended := self.connections.judge_again():
            log.warning("requests were aborted because their keys no longer allow them count=%d", ended)

    def in_progress(self) -> list[InProgress]:
        return self.connections.in_progress()

    def last_pieces(self, model: ModelName) -> list[object]:
        return self.connections.last_pieces(model)
