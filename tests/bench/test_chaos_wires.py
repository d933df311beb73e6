"""The TCP link between two programs of a chaos test: working, frozen, cut and restored."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from bench.chaos.fleet import RESET, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SOON_S, PATIENCE_S = 0.2, 10.0
LINGER = socket.SOL_SOCKET, socket.SO_LINGER, RESET


@asynccontextmanager
async def wired() -> AsyncIterator[tuple[Wire, asyncio.Queue[Ends]]]:
    """A link, and the server's ends of its connections."""
    arrived: asyncio.Queue[Ends] = asyncio.Queue()
    server = await asyncio.start_server(lambda *ends: arrived.put_nowait(ends), "127.0.0.1", 0)
    wire = Wire(server.sockets[0].getsockname()[1])
    await wire.mend()
    try:
        yield wire, arrived
    finally:
        await wire.mend()
        wire.cut()
        server.close()


async def call(wire: Wire) -> Ends:
    return await asyncio.open_connection("127.0.0.1", wire.port)


async def said(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read(100)


async def test_a_whole_wire_carries_both_ways() -> None:
    """A half-close by one side passes while the other side still sends."""
    async with wired() as (wire, arrived):
        reader, writer = await call(wire)
        far_reader, far_writer = await arrived.get()
        writer.write(b"ping")
        assert await said(far_reader) == b"ping"
        writer.write_eof()
        assert await said(far_reader) == b""
        far_writer.write(b"pong")

        assert await said(reader) == b"pong"
        far_writer.close()
        assert await said(reader) == b""
        writer.close()


async def test_a_frozen_wire_delivers_when_it_is_mended() -> None:
    """Neither side notices the interruption."""
    async with wired() as (wire, arrived):
        _, writer = await call(wire)
        far_reader, far_writer = await arrived.get()
        wire.freeze()
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON_S):
                await far_reader.read(100)
        await wire.mend()

        assert await said(far_reader) == b"late"
        writer.close()
        far_writer.close()


async def test_a_cut_wire_resets_and_refuses_until_it_is_mended() -> None:
    """A reset is not mistaken for a clean end."""
    async with wired() as (wire, arrived):
        reader, writer = await call(wire)
        _, far_writer = await arrived.get()
        wire.cut()
        with pytest.raises(ConnectionResetError):
            await said(reader)
        with pytest.raises(ConnectionRefusedError):
            await call(wire)
        await wire.mend()
        _, again = await call(wire)

        _, far_again = await arrived.get()
        for end in (writer, far_writer, again, far_again):
            end.close()


async def test_who_is_reset_at_one_end_is_reset_at_the_other() -> None:
    """Otherwise a response without a length would look complete."""
    async with wired() as (wire, arrived):
        reader, writer = await call(wire)
        _, far_writer = await arrived.get()
        far_writer.get_extra_info("socket").setsockopt(*LINGER)
        far_writer.transport.abort()

        with pytest.raises(ConnectionResetError):
            await said(reader)
        writer.close()
