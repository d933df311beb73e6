"""What a ready server reports about itself: llama-server has its slots and its context at /props."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.api_key import authorization
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Seconds

LLAMA_SERVER = "llama.cpp"
"""Its `Server` header."""
PATIENCE_S: Seconds = 10.0
"""Nothing waits for the answer, and the server may be busy with its first requests."""


class Props(NamedTuple):
    """None: the server does not say."""

    total_slots: int | None = None
    context: int | None = None
    """Tokens of one request, prompt and response together."""


async def props_of(address: Address, key: str = "") -> Props:
    """Never raises, because nothing depends on it. `key` is the server's own, if it demands one."""
    try:
        props = parsed(await body_of(address, "/props", PATIENCE_S, key))
        return Props(_count(props.get("total_slots")), _count(_generation(props).get("n_ctx")))
    except (OSError, ValueError, AttributeError):  # includes timeouts
        return Props()


def _generation(props: dict[str, Any]) -> dict[str, Any]:
    settings = props.get("default_generation_settings")
    return settings if isinstance(settings, dict) else {}


def _count(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


async def body_of(address: Address, path: str, within: Seconds | None = None, key: str = "") -> bytes:
    """The body of a 200; ValueError for any other status."""
    answer = await fetch(address, path, Connector(), lines=authorization(key), within=within)
    if answer.status != HTTPStatus.OK:
        raise ValueError("not answered with 200")
    return answer.body
