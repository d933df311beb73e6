"""Accepts TLS connections: counts them before the handshake, and limits its duration.

The event loops' own servers report a connection only after its handshake, for which they wait a minute.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.relay.downstream.connection import LINGER_S, ClientConnection
from hotseat.relay.downstream.connection_count import host_of

if TYPE_CHECKING:
    import socket
    import ssl

    from hotseat.identifiers import Seconds
    from hotseat.relay.context import Context
    from hotseat.relay.downstream.connections import Connections
    from hotseat.tasks import Tasks

BACKLOG = 4096
AGAIN_S: Seconds = 0.1
"""Delay after a failed accept, for instance without free descriptors."""


class TlsListener:
    """One listening socket; its tasks belong to the relay."""

    def __init__(
        self, context: Context, connections: Connections, tasks: Tasks, sock: socket.socket, tls: ssl.SSLContext
    ) -> None:
        self._context = context
        self._connections = connections
        self._tasks = tasks
        self._sock = sock
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._accepting = tasks.start(self._accept(), "accept")
        self._accepting.add_done_callback(lambda _: sock.close())  # an accept in progress would keep it open

    def close(self) -> None:
        self._accepting.cancel()

    async def _accept(self) -> None:
        while True:
            await self._accept_one()

    async def _accept_one(self) -> None:
        try:
            sock, name = await self._loop.sock_accept(self._sock)
        except OSError:
            await asyncio.sleep(AGAIN_S)
            return
        peer = host_of(name)
        if self._connections.arrived(peer) is None:
            self._tasks.start(self._handshake(sock, peer), "TLS handshake")
        else:  # no response is possible without TLS
            self._connections.departed(peer)
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
                self._connections.departed(peer)
