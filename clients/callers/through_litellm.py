"""LiteLLM as a library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import litellm
from clients.callers.calls import KEY, MESSAGES, URL, take_calls
from litellm.constants import COMPLETION_HTTP_FALLBACK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Generator


class LiteLLM:
    limit_s = COMPLETION_HTTP_FALLBACK_SECONDS

    def ask(self, model: str) -> str:
        return str(complete(model).choices[0].message.content)

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        for chunk in complete(model, stream=True, timeout=limit_s):
            yield chunk.choices[0].delta.content or ""


def complete(model: str, **options: Any) -> Any:
    address: dict[str, Any] = {"api_base": f"{URL}/v1", "api_key": KEY}
    return litellm.completion(model=f"openai/{model}", messages=MESSAGES, **address, **options)


if __name__ == "__main__":
    take_calls(LiteLLM(), "litellm")
