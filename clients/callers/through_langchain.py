"""LangChain's chat model for OpenAI's API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
from clients.callers.calls import QUESTION, URL, take_calls
from langchain_openai import ChatOpenAI

if TYPE_CHECKING:
    from collections.abc import Generator


class LangChain:
    limit_s = openai.DEFAULT_TIMEOUT.read

    def ask(self, model: str) -> str:
        return str(chat(model).invoke(QUESTION).content)

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        for chunk in chat(model, timeout=limit_s).stream(QUESTION):
            yield chunk.content


def chat(model: str, **options: Any) -> Any:
    return ChatOpenAI(model=model, base_url=f"{URL}/v1", api_key="none", **options)


if __name__ == "__main__":
    take_calls(LangChain(), "langchain-openai")
