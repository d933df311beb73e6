"""Bodies of requests that only name a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import ClientError

if TYPE_CHECKING:
    from fastapi import Request

LARGEST_BODY = 64 << 10


async def small_body(request: Request) -> bytes:
    """Reads all of it, so that the connection stays usable, and keeps no more than a name can need."""
    body = b""
    async for piece in request.stream():
        if len(body) <= LARGEST_BODY:
            body += piece
    if len(body) > LARGEST_BODY:
        raise ClientError(f"the body is larger than {LARGEST_BODY} bytes; send only the name of a model")
    return body
