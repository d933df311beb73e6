"""OpenAI's Python client, of whichever version is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai
from clients.callers.calls import KEY, MESSAGES, URL, take_calls

if TYPE_CHECKING:
    from collections.abc import Generator


class OpenAI:
    limit_s = openai.DEFAULT_TIMEOUT.read

    def __init__(self) -> None:
        self._client = openai.OpenAI(base_url=f"{URL}/v1", api_key=KEY)

    def ask(self, model: str) -> str:
        return self._client.chat.completions.create(model=model, messages=MESSAGES).choices[0].message.content or ""

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        client = self._client.with_options(timeout=limit_s) if limit_s else self._client
        with client.chat.completions.create(model=model, messages=MESSAGES, stream=True) as stream:
            for chunk in stream:
                yield chunk.choices[0].delta.content or ""


if __name__ == "__main__":
    take_calls(OpenAI(), "openai")
