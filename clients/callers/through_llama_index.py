"""LlamaIndex with its class for servers with OpenAI's API."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from clients.callers.calls import QUESTION, URL, take_calls
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

if TYPE_CHECKING:
    from collections.abc import Generator


class LlamaIndex:
    def __init__(self) -> None:
        self.limit_s: float | None = chat("any").timeout

    def ask(self, model: str) -> str:
        return str(chat(model).chat([ChatMessage(QUESTION)]).message.content)

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        limit = {"timeout": limit_s} if limit_s else {}
        with closing(chat(model, **limit).stream_chat([ChatMessage(QUESTION)])) as stream:
            for part in stream:
                yield part.delta or ""


def chat(model: str, **options: Any) -> Any:
    return OpenAILike(model=model, api_base=f"{URL}/v1", api_key="none", is_chat_model=True, **options)


if __name__ == "__main__":
    take_calls(LlamaIndex(), "llama-index-llms-openai-like")
