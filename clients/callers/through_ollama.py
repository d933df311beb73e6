"""Ollama's Python client, which uses Ollama's own API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clients.callers.calls import MESSAGES, URL, take_calls

import ollama

if TYPE_CHECKING:
    from collections.abc import Generator


class Ollama:
    limit_s: float | None = None

    def ask(self, model: str) -> str:
        return ollama.Client(URL).chat(model, MESSAGES).message.content or ""

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        for part in ollama.Client(URL, timeout=limit_s).chat(model, MESSAGES, stream=True):
            yield part.message.content or ""


if __name__ == "__main__":
    take_calls(Ollama(), "ollama")
