"""The `llm` tool as a library, with the model class that its extra-openai-models.yaml makes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import openai
from clients.callers.calls import QUESTION, URL, take_calls
from llm.default_plugins.openai_models import Chat

if TYPE_CHECKING:
    from collections.abc import Generator


class LLM:
    limit_s = openai.DEFAULT_TIMEOUT.read

    def ask(self, model: str) -> str:
        return str(chat(model).prompt(QUESTION, stream=False).text())

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        with closing(iter(chat(model, limit_s).prompt(QUESTION, stream=True))) as stream:
            yield from stream


class LimitedChat(Chat):  # type: ignore[misc]  # it has no types
    """llm has no setting for the time limit, so it is set on the underlying client."""

    limit_s: float | None

    def get_client(self, key: Any, **options: Any) -> Any:
        client = super().get_client(key, **options)
        return client.with_options(timeout=self.limit_s) if self.limit_s else client


def chat(model: str, limit_s: float | None = None) -> Any:
    chat = LimitedChat(model, model_name=model, api_base=f"{URL}/v1")
    chat.key = "none"
    chat.limit_s = limit_s
    return chat


if __name__ == "__main__":
    take_calls(LLM(), "llm")
