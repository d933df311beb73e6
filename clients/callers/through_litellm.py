"""LiteLLM as a library, with its provider for OpenAI's API or with one of its two for Ollama's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

# The provider is the first argument; calls.py expects only the other two.
PROVIDER = sys.argv.pop(1)

import litellm  # noqa: E402
from clients.callers.calls import KEY, MESSAGES, URL, take_calls  # noqa: E402
from litellm.constants import COMPLETION_HTTP_FALLBACK_SECONDS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Generator

ADDRESS: dict[str, Any] = {"api_base": f"{URL}/v1", "api_key": KEY} if PROVIDER == "openai" else {"api_base": URL}


class LiteLLM:
    limit_s = COMPLETION_HTTP_FALLBACK_SECONDS

    def ask(self, model: str) -> str:
        return str(complete(model).choices[0].message.content)

    def stream(self, model: str, limit_s: float | None) -> Generator[str, None, None]:
        for chunk in complete(model, stream=True, timeout=limit_s):
            yield chunk.choices[0].delta.content or ""


def complete(model: str, **options: Any) -> Any:
    if PROVIDER == "ollama":
        leave_messages_as_they_are(model)
    return litellm.completion(model=f"{PROVIDER}/{model}", messages=MESSAGES, **ADDRESS, **options)


def leave_messages_as_they_are(model: str) -> None:
    """`ollama` writes all messages into one prompt, by default with headings; the models of the test answer to the
    text.
    """
    as_it_is = {"user": {"pre_message": "", "post_message": ""}}
    litellm.register_prompt_template(model=model, roles=as_it_is, initial_prompt_value="", final_prompt_value="")


if __name__ == "__main__":
    take_calls(LiteLLM(), "litellm")
