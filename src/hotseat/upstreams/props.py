"""What a ready server says about itself: llama-server tells at /props how many requests it works on at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.dialling import Dialler
from hotseat.json_text import parsed
from hotseat.upstreams.readiness import connected

if TYPE_CHECKING:
    from hotseat.terms import Address, Bytes, Seconds

LLAMA_SERVER = "llama.cpp"
"""What it calls itself in the field `Server`."""
PATIENCE_S: Seconds = 2.0
MOST_BYTES: Bytes = 1 << 20


async def total_slots(address: Address) -> int | None:
    """None where the server does not say; nothing depends on it, so nothing fails for it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            slots = parsed(await body_of(address, "/props")).get("total_slots")
    except (OSError, ValueError, AttributeError):  # a time-out too
        return None
    return slots if type(slots) is int and slots > 0 else None


async def body_of(address: Address, path: str) -> bytes:
    """Of a 200, read to the end of the connection: an HTTP/1.0 question is answered without chunks."""
    async with connected(address, Dialler()) as (reader, writer):
        writer.write(f"GET {address.prefix}{path} HTTP/1.0\r\nHost: {address.host}:{address.port}\r\n\r\n".encode())
        answer = b""
        while (piece := await reader.read(65536)) and len(answer) < MOST_BYTES:
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200" not in head.partition(b"\r\n")[0]:
        raise ValueError("not answered with 200")
    return body
