"""The `llm` tool as a library, with its plugin for Ollama's API."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import llm_ollama.auth
from clients.callers.calls import QUESTION, URL, take_calls
from llm_ollama.models.chat import OllamaChatModel

if TYPE_CHECKING:
    from collections.abc import Generator


class LLM:
    limit_s: float | None = None

    def ask(self, model: str) -> str:
        return str(chat(model).prompt(QUESTION, stream=False).text())

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        # It has no setting for the time limit, so the one of the underlying client is changed.
        llm_ollama.auth.DEFAULT_REQUEST_TIMEOUT = limit_s
        with closing(iter(chat(model).prompt(QUESTION, stream=True))) as stream:
            yield from stream


def chat(model: str) -> Any:
    os.environ["OLLAMA_HOST"] = URL
    return OllamaChatModel(model_id=model, ollama_name=model, capabilities=())


if __name__ == "__main__":
    take_calls(LLM(), "llm-ollama")
