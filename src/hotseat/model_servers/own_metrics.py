"""A model server's own page of metrics for Prometheus: vLLM always has one, llama-server with `--metrics`."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.model_servers.api_key import authorization
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import fetch

if TYPE_CHECKING:
    from hotseat.identifiers import Address, Bytes, Seconds
    from hotseat.net.http_client import Answer

PATH, TEXT = "/metrics", "text/plain"
PATIENCE_S: Seconds = 5.0
"""Half of what Prometheus allows for a scrape by default; llama-server answers after its current batch."""
LARGEST: Bytes = 1 << 20


async def metrics_of(address: Address, key: str = "", within: Seconds = PATIENCE_S) -> str | None:
    """Never raises. None: it has no such page, or did not send all of it in time. `key` is the server's own."""
    lines = authorization(key) + f"Accept: {TEXT}\r\n".encode()
    try:
        answer = await fetch(address, PATH, Connector(), lines=lines, within=within, most=LARGEST + 1)
        return answer.body.decode() if is_page(answer) else None
    except (OSError, ValueError):  # includes timeouts
        return None


def is_page(answer: Answer) -> bool:
    """Whether it is text and complete; the last number of half a page would be wrong."""
    length = int(answer.fields.get("content-length", len(answer.body)))
    is_text = answer.fields.get("content-type", "").lower().startswith(TEXT)
    return answer.status == HTTPStatus.OK and is_text and len(answer.body) == length <= LARGEST
