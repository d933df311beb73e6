"""What a ready server reports about itself: llama-server has its number of slots at /props."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Dialler
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Seconds

LLAMA_SERVER = "llama.cpp"
"""Its `Server` header."""
PATIENCE_S: Seconds = 2.0


async def total_slots(address: Address) -> int | None:
    """None if the server does not say; never raises, because nothing depends on it."""
    try:
        slots = parsed(await body_of(address, "/props", PATIENCE_S)).get("total_slots")
    except (OSError, ValueError, AttributeError):  # includes timeouts
        return None
    return slots if type(slots) is int and slots > 0 else None


async def body_of(address: Address, path: str, within: Seconds | None = None) -> bytes:
    """The body of a 200; ValueError for any other status."""
    answer = await fetch(address, path, Dialler(), within=within)
    if answer.status != HTTPStatus.OK:
        raise ValueError("not answered with 200")
    return answer.body
