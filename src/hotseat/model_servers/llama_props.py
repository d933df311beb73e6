"""What a ready server says about itself: llama-server tells at /props how many requests it works on at a time."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import Dialler
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Seconds

LLAMA_SERVER = "llama.cpp"
"""What it calls itself in the field `Server`."""
PATIENCE_S: Seconds = 2.0


async def total_slots(address: Address) -> int | None:
    """None where the server does not say; nothing depends on it, so nothing fails for it."""
    try:
        slots = parsed(await body_of(address, "/props", PATIENCE_S)).get("total_slots")
    except (OSError, ValueError, AttributeError):  # a time-out too
        return None
    return slots if type(slots) is int and slots > 0 else None


async def body_of(address: Address, path: str, within: Seconds | None = None) -> bytes:
    """Of a 200."""
    answer = await fetch(address, path, Dialler(), within=within)
    if answer.status != HTTPStatus.OK:
        raise ValueError("not answered with 200")
    return answer.body
