"""Anthropic's Python client, which uses its own API at /v1/messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anthropic
from clients.callers.calls import MESSAGES, URL, take_calls

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_TOKENS = 1024


class Anthropic:
    limit_s = anthropic.DEFAULT_TIMEOUT.read

    def __init__(self) -> None:
        self._client = anthropic.Anthropic(base_url=URL, api_key="none")

    def ask(self, model: str) -> str:
        answer = self._client.messages.create(model=model, messages=MESSAGES, max_tokens=MAX_TOKENS)
        return "".join(block.text for block in answer.content if block.type == "text")

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        client = self._client.with_options(timeout=limit_s) if limit_s else self._client
        with client.messages.stream(model=model, messages=MESSAGES, max_tokens=MAX_TOKENS) as stream:
            yield from stream.text_stream


if __name__ == "__main__":
    take_calls(Anthropic(), "anthropic")
