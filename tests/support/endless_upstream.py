"""An upstream that sends without end."""

from __future__ import annotations

import asyncio
import select
import socket
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

if TYPE_CHECKING:
    from tests.support.scripted_upstream import Line

PIECE = b"10000\r\n" + b"x" * 65536 + b"\r\n"
MOST_IN_BETWEEN = 16 << 20
"""An upper bound of all buffers: the relay's, and the kernel's, whose send buffer grows to 4 MiB and whose receive
buffer grows to twice of what was read."""


class EndlessUpstream:
    """Sends as much as the relay accepts."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.sent = 0
        self._seen = -1
        self._quiet = 0

    async def flow(self, most: int) -> None:
        line = self.line.wire
        line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        while self.sent < most:
            await asyncio.get_running_loop().sock_sendall(line.sock, PIECE)
            self.sent += len(PIECE)

    async def stands_still(self) -> None:
        """Return when the kernel has accepted nothing for many looks, and would accept nothing."""
        self._seen, self._quiet = -1, 0
        await come_true(self._is_quiet)

    def _is_quiet(self) -> bool:
        _, writable, _ = select.select([], [self.line.wire.sock], [], 0)
        stands = self.sent == self._seen and not writable
        self._seen, self._quiet = self.sent, self._quiet + 1 if stands else 0
        return self._quiet >= 50
