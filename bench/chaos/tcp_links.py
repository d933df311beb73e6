"""A TCP forwarder whose connections can be frozen or cut."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

from tests.support.ports import free_port

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

PIECE = 1 << 16
RESET = struct.pack("ii", 1, 0)


class Wire:
    """Accepts connections for `target`, a port of this machine."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._listener: asyncio.Server | None = None
        self._flows = asyncio.Event()
        self._ends: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        """Let frozen data flow, and accept connections again."""
        self._flows.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    def freeze(self) -> None:
        """Forward nothing and close nothing, like a network that loses all packets for a while."""
        self._flows.clear()

    def cut(self) -> None:
        """Reset connections and refuse new ones."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for end in self._ends:
            reset(end)

    # One connection

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        self._ends.add(writer)
        try:
            await self._flows.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(far_writer)
            self._ends.add(far_writer)
            await self._join((reader, writer), (far_reader, far_writer))
        except OSError:
            for end in ends:
                reset(end)  # losing one end means losing the other
        finally:
            self._ends -= ends
            for end in ends:
                end.close()

    async def _join(self, near: Ends, far: Ends) -> None:
        """Until both ends are closed; raises OSError if one is lost."""
        if self._listener is None:
            raise ConnectionResetError("it was cut while the way was being made")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(near[0], far[1]))
                group.create_task(self._pump(far[0], near[1]))
        except* OSError as lost:
            raise ConnectionResetError("one end is lost") from lost

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            await self._flows.wait()
            writer.write(piece)
            await writer.drain()
        await self._flows.wait()
        writer.write_eof()


def reset(end: asyncio.StreamWriter) -> None:
    """Send RST, so that nobody mistakes it for a clean end."""
    with suppress(OSError):
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.transport.abort()
