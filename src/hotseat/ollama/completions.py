"""PURE: what model servers send: complete responses and pieces of streams, in OpenAI's form and in llama-server's own.

Texts stay as they are in JSON: they are passed on without being decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Seconds

NOTHING = msgspec.Raw(b"")
SHORTEST_TEXT = 3
"""Of a text in JSON that is not empty."""
MOST_OF_AN_ERROR = 64 << 10
"""Bytes; of more, only the beginning is shown."""
LONGEST_SHOWN = 500
LARGEST_FIGURE = 1 << 63


class FunctionPiece(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class CallPiece(msgspec.Struct, gc=False):
    index: int | None = None
    """Some servers number no calls."""
    id: str | None = None
    function: FunctionPiece | None = None


class Said(msgspec.Struct, gc=False):
    """A message, or a piece of one."""

    content: msgspec.Raw = NOTHING
    reasoning_content: msgspec.Raw = NOTHING
    reasoning: msgspec.Raw = NOTHING
    """vLLM's name for it."""
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Said | None = None
    message: Said | None = None
    text: msgspec.Raw = NOTHING
    finish_reason: str | None = None


class Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Timings(msgspec.Struct, gc=False):
    """llama-server's, in milliseconds."""

    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    cache_n: int | None = None


class Completion(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: msgspec.Raw = NOTHING
    # llama-server's own form, of /infill
    content: msgspec.Raw = NOTHING
    stop: bool | None = None
    stop_type: str | None = None


_read = msgspec.json.Decoder(Completion).decode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_completion(data: bytes) -> Completion:
    try:
        return _read(data)
    except UNREADABLE as problem:
        raise UpstreamError(f"the upstream's response cannot be translated: {problem}") from problem


def text_in(raw: msgspec.Raw) -> bytes:
    """The JSON of a text; empty if there is none, or an empty one."""
    said = bytes(raw)
    return said if len(said) >= SHORTEST_TEXT and said.startswith(b'"') else b""


def nanoseconds(seconds: Seconds) -> float:
    return seconds * 1e9


def readable(figures: Mapping[str, float]) -> dict[str, int]:
    """Without those that are less than 1, or larger than clients can read, whatever a server says it has measured."""
    return {name: round(figure) for name, figure in figures.items() if 1 <= figure < LARGEST_FIGURE}


# Errors


class _Failure(msgspec.Struct):
    error: Any = None
    message: Any = None
    detail: Any = None


_read_failure = msgspec.json.Decoder(_Failure).decode


def error_text(body: bytes, status: int) -> str:
    """The text in the body of an upstream's error, however it is wrapped."""
    nothing = f"the model server responded {status} without a text"
    try:
        failure = _read_failure(body[:MOST_OF_AN_ERROR])
    except UNREADABLE:
        return " ".join(body[: 4 * LONGEST_SHOWN].decode("utf-8", "replace").split())[:LONGEST_SHOWN] or nothing
    error = failure.error or failure.message or failure.detail or nothing
    if isinstance(error, dict):
        error = error.get("message") or error
    return error if isinstance(error, str) else msgspec.json.encode(error).decode()
