"""LangChain's chat model for Ollama's API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clients.callers.calls import QUESTION, URL, take_calls
from langchain_ollama import ChatOllama

if TYPE_CHECKING:
    from collections.abc import Generator


class LangChain:
    limit_s: float | None = None

    def ask(self, model: str) -> str:
        return str(chat(model).invoke(QUESTION).content)

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        for chunk in chat(model, limit_s).stream(QUESTION):
            yield chunk.content


def chat(model: str, limit_s: float | None = None) -> Any:
    return ChatOllama(model=model, base_url=URL, client_kwargs={"timeout": limit_s})


if __name__ == "__main__":
    take_calls(LangChain(), "langchain-ollama")
