"""The `llm` tool as a library, with its plugin for Ollama's API."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from clients.callers.calls import QUESTION, URL, take_calls

if TYPE_CHECKING:
    from collections.abc import Generator

os.environ["OLLAMA_HOST"] = URL

from llm_ollama import Ollama  # noqa: E402  # reads the address when it is imported


class LLM:
    limit_s: float | None = None

    def ask(self, model: str) -> str:
        return str(chat(model).prompt(QUESTION, stream=False).text())

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        os.environ["OLLAMA_LIMIT"] = str(limit_s or "")
        with closing(iter(chat(model).prompt(QUESTION, stream=True))) as stream:
            yield from stream


def chat(model: str) -> Any:
    return Ollama(model)


if __name__ == "__main__":
    take_calls(LLM(), "llm-ollama")
