"""The `llm` tool as a library, with the model class its extra-openai-models.yaml makes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from clients.callers.calls import QUESTION, URL, take_calls
from llm.default_plugins.openai_models import Chat

if TYPE_CHECKING:
    from collections.abc import Generator


class LLM:
    def ask(self, model: str) -> str:
        return str(chat(model).prompt(QUESTION, stream=False).text())

    def stream(self, model: str) -> Generator[str, None, None]:
        with closing(iter(chat(model).prompt(QUESTION, stream=True))) as stream:
            yield from stream


def chat(model: str) -> Any:
    chat = Chat(model, model_name=model, api_base=f"{URL}/v1")
    chat.key = "none"
    return chat


if __name__ == "__main__":
    take_calls(LLM(), "llm")
