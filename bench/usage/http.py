"""As much of HTTP as the upstream and the clients need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


async def read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The first line and the body; raises IncompleteReadError if it breaks off."""
    head = await reader.readuntil(b"\r\n\r\n")
    first = head.partition(b"\r\n")[0]
    if found := _LENGTH.search(head):
        return first, await reader.readexactly(int(found[1]))
    if b"transfer-encoding: chunked" not in head.lower():
        return first, b""
    return first, await _read_chunks(reader)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
