"""A model server that reports as many tokens as the request asks for; a part of the run, or a program of its own."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from bench.usage.formats import response
from bench.usage.http import chunk, read_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def upstream(port: int = 0) -> AsyncIterator[int]:
    """Its port."""
    server = await asyncio.start_server(_serve, "127.0.0.1", port)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        while True:
            _, body = await read_message(reader)
            is_stream, parts = response(body)
            for piece in _stream(parts) if is_stream else [WHOLE % len(parts[0]) + parts[0]]:
                writer.write(piece)
                await writer.drain()
    writer.close()


def _stream(parts: list[bytes]) -> list[bytes]:
    """As real servers: head, events and end are written one after another."""
    return [STREAM, *map(chunk, parts), b"0\r\n\r\n"]


async def _main(port: int) -> None:
    async with upstream(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
