"""What a ready server reports about itself: its slots and context, and its page of metrics for Prometheus.

llama-server has the former at /props. vLLM always has the page, llama-server with `--metrics`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.api_key import authorization
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Bytes, Seconds
    from hotseat.net.http_client import Answer

LLAMA_SERVER = "llama.cpp"
"""Its `Server` header."""
PROPS_PATIENCE_S: Seconds = 10.0
"""Nothing waits for the answer, and the server may be busy with its first requests."""
METRICS, TEXT = "/metrics", "text/plain"
SCRAPE_PATIENCE_S: Seconds = 5.0
"""Half of what Prometheus allows for a scrape by default; llama-server answers after its current batch."""
LARGEST: Bytes = 1 << 20


class Props(NamedTuple):
    """None: the server does not say."""

    total_slots: int | None = None
    context: int | None = None
    """Tokens of one request, prompt and response together."""


async def props_of(address: Address, key: str = "") -> Props:
    """Never raises, because nothing depends on it. `key` is the server's own, if it demands one."""
    try:
        props = parsed(await body_of(address, "/props", PROPS_PATIENCE_S, key))
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


async def metrics_of(address: Address, key: str = "", within: Seconds = SCRAPE_PATIENCE_S) -> str | None:
    """Never raises. None: it has no such page, or did not send all of it in time. `key` is the server's own."""
    lines = authorization(key) + f"Accept: {TEXT}\r\n".encode()
    try:
        answer = await fetch(address, METRICS, Connector(), lines=lines, within=within, most=LARGEST + 1)
        return answer.body.decode() if is_page(answer) else None
    except (OSError, ValueError):  # includes timeouts
        return None


def is_page(answer: Answer) -> bool:
    """Whether it is text and complete; the last number of half a page would be wrong."""
    length = int(answer.fields.get("content-length", len(answer.body)))
    is_text = answer.fields.get("content-type", "").lower().startswith(TEXT)
    return answer.status == HTTPStatus.OK and is_text and len(answer.body) == length <= LARGEST
