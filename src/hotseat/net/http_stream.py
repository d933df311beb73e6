"""Endless responses of other hotseats, line by line: feeds of events."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.net.http_client import connected, question, response_head

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from hotseat.identifiers import Address, Bytes, Seconds
    from hotseat.net.happy_eyeballs import Connector

LARGEST_CHUNK: Bytes = 4 << 20
LONGEST_LINE: Bytes = 4 << 20
PIECE: Bytes = 64 << 10


async def lines_of(
    address: Address, path: str, connector: Connector, *, lines: bytes, within: Seconds, quiet_s: Seconds
) -> AsyncGenerator[bytes, None]:
    """The lines of the body as they arrive; leaving the loop closes the connection.

    Raises OSError (which includes TimeoutError) if the response does not begin `within` this time or nothing arrives
    for `quiet_s`, ValueError if it is not such a response.
    """
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(within):
            reader, writer = await stack.enter_async_context(connected(address, connector))
            writer.write(question(address, path, "GET", lines))
            status, fields = await response_head(reader)
        if status != HTTPStatus.OK:
            raise ValueError(f"it responded {status}")
        pieces = await stack.enter_async_context(aclosing(_pieces(reader, fields, quiet_s)))
        rest = b""
        async for piece in pieces:
            for begin in range(0, len(piece), PIECE):
                *whole, rest = (rest + piece[begin : begin + PIECE]).split(b"\n")
                for line in whole:
                    yield line
                if len(rest) > LONGEST_LINE:
                    raise ValueError("a line of the response is too long")
                await asyncio.sleep(0)  # a chunk may have two million lines


async def _pieces(
    reader: asyncio.StreamReader, fields: Mapping[str, str], quiet_s: Seconds
) -> AsyncGenerator[bytes, None]:
    read = _chunk if fields.get("transfer-encoding", "").lower() == "chunked" else _some
    while True:
        async with asyncio.timeout(quiet_s):
            piece = await read(reader)
        if not piece:
            return
        yield piece


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end of the response."""
    begin = await reader.readline()
    if not begin:
        raise ConnectionResetError("it closed the connection in the middle of its response")
    size = int(begin.partition(b";")[0], 16)
    if not 0 <= size <= LARGEST_CHUNK:
        raise ValueError("a chunk of the response is too large")
    try:
        return (await reader.readexactly(size + 2))[:-2]  # without the end of its line
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("it closed the connection in the middle of its response") from None


async def _some(reader: asyncio.StreamReader) -> bytes:
    return await reader.read(PIECE)
