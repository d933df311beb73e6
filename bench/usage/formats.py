"""Requests of each API, and responses that report the numbers of tokens that the request asks for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.usage.counts import Counts

CHAT, COMPLETION, MESSAGES, OLLAMA = "/v1/chat/completions", "/completion", "/v1/messages", "/api/chat"
FORMATS = ("openai", "openai_stream", "llama_stream", "llama_native", "anthropic", "anthropic_stream", "ollama_stream")
WANTED = re.compile(rb"counts=(\w+):(\d+):(\d+):(\d+)")
SPOKEN = "word " * 20


def request(form: str, counts: Counts) -> tuple[str, dict[str, Any]]:
    """Its path and its body, which tells the upstream what to report."""
    text = f"counts={form}:{counts.prompt}:{counts.cached}:{counts.completion}"
    if form == "llama_native":
        return COMPLETION, {"model": counts.model, "prompt": text}
    path = MESSAGES if form.startswith("anthropic") else OLLAMA if form.startswith("ollama") else CHAT
    body = {"model": counts.model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    return path, {**body, "stream": form.endswith("_stream")}


def response(body: bytes) -> tuple[bool, list[bytes]]:
    """Whether it is a stream, and its parts."""
    found = WANTED.search(body)
    assert found, body
    form, prompt, cached, completion = found[1].decode(), int(found[2]), int(found[3]), int(found[4])
    return form.endswith("_stream"), [part.encode() for part in FORMS[form](prompt, cached, completion)]


def _usage(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}


def _timings(prompt: int, cached: int, completion: int) -> dict[str, Any]:
    computed = {"cache_n": cached, "prompt_n": prompt - cached, "prompt_ms": 1.5}
    return {**computed, "predicted_n": completion, "predicted_ms": 2.5, "predicted_per_second": 99.5}


def _events(*events: dict[str, Any] | str) -> list[str]:
    return [f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events]


def _delta(reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": SPOKEN}, "finish_reason": reason}]}


def _openai(*counts: int) -> list[str]:
    return [json.dumps({"choices": [{"message": {"content": SPOKEN}}], "usage": _usage(*counts)})]


def _openai_stream(*counts: int) -> list[str]:
    return _events(_delta(), _delta("stop"), {"choices": [], "usage": _usage(*counts)}, "[DONE]")


def _llama_stream(*counts: int) -> list[str]:
    """Nobody asked for usage, but llama-server always reports timings."""
    return _events(_delta(), {**_delta("stop"), "timings": _timings(*counts)}, "[DONE]")


def _llama_native(*counts: int) -> list[str]:
    return [json.dumps({"content": SPOKEN, "stop": True, "timings": _timings(*counts)})]


def _anthropic(prompt: int, cached: int, completion: int) -> list[str]:
    usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": completion}
    return [json.dumps({"type": "message", "content": [{"type": "text", "text": SPOKEN}], "usage": usage})]


def _anthropic_stream(prompt: int, cached: int, completion: int) -> list[str]:
    usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": 0}
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": SPOKEN}}
    return _events(
        {"type": "message_start", "message": {"role": "assistant", "usage": usage}},
        *[delta] * 6,
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": completion}},
        {"type": "message_stop"},
    )


FORMS: dict[str, Callable[[int, int, int], list[str]]] = {
    "openai": _openai,
    "openai_stream": _openai_stream,
    "llama_stream": _llama_stream,
    "llama_native": _llama_native,
    "anthropic": _anthropic,
    "anthropic_stream": _anthropic_stream,
    "ollama_stream": _openai_stream,  # hotseat asks the upstream in OpenAI's API
}
