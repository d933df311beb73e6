"""Accepts connections that begin with a TLS handshake: they are counted before it, and it has a time limit.

The loops' own servers tell of a connection when its handshake is over, and wait a minute for that.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.relay.downstream.connection import LINGER_S, CountedConnection
from hotseat.relay.downstream.connection_count import host_of

if TYPE_CHECKING:
    import socket
    import ssl

    from hotseat.identifiers import Seconds
    from hotseat.relay.server import Relay

BACKLOG = 4096
AGAIN_S: Seconds = 0.1
"""After an accept that failed, because there are no descriptors for instance."""


class TlsListener:
    """One listening socket; its tasks are the relay's."""

    def __init__(self, relay: Relay, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._relay = relay
        self._sock = sock
        self._context = context
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._accepting = relay.tasks.start(self._accept(), "accept")
        self._accepting.add_done_callback(lambda _: sock.close())  # a loop that still accepts would keep it open

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
        if self._relay.arrived(peer) is None:
            self._relay.tasks.start(self._agree(sock, peer), "TLS handshake")
        else:  # without TLS nothing can be said
            self._relay.departed(peer)
            sock.close()

    async def _agree(self, sock: socket.socket, peer: str) -> None:
        """The client's connection takes the place that was counted, or it is given back."""
        client = CountedConnection(self._relay)
        try:
            with suppress(OSError):  # of which ssl.SSLError is one; whatever was wrong, there is nobody to tell it to
                await self._loop.connect_accepted_socket(
                    lambda: client,
                    sock,
                    ssl=self._context,
                    ssl_handshake_timeout=self._relay.rules.limits.header_timeout_s,
                    ssl_shutdown_timeout=LINGER_S,
                )
        finally:
            if not client.peer:
                self._relay.departed(peer)
