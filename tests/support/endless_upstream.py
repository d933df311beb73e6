"""An upstream that sends without end."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.scripted_upstream import Line

PIECE = b"10000\r\n" + b"x" * 65536 + b"\r\n"
MOST_IN_BETWEEN = 8 << 20
"""An upper bound of all buffers of the kernel and of the relay."""


class Fountain:
    """Sends as much as the relay accepts."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.sent = 0

    async def flow(self, most: int) -> None:
        line = self.line.wire
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        while self.sent < most:
            await asyncio.get_running_loop().sock_sendall(line.sock, PIECE)
            self.sent += len(PIECE)

    async def stands_still(self) -> None:
        """Return when nothing was accepted for some iterations of the loop."""
        seen, quiet = -1, 0
        async with asyncio.timeout(10):
            while quiet < 50:
                quiet = quiet + 1 if self.sent == seen else 0
                seen = self.sent
                await asyncio.sleep(0.002)
