"""PURE: responses of model servers as responses of Ollama's API.

A stream is translated piece by piece; nothing is kept of it except the calls of tools, which Ollama sends as a whole.
Events, calls and whole responses have limits in size and number; what exceeds one is an error, never a clean end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hotseat.errors import UpstreamError
from hotseat.ollama.answers import ChatWriter, End, GenerateWriter
from hotseat.ollama.completions import (
    UNREADABLE,
    Completion,
    Said,
    Usage,
    error_text,
    nanoseconds,
    read_completion,
    readable,
    text_in,
)
from hotseat.ollama.events import EventReader
from hotseat.ollama.requests import Answer
from hotseat.ollama.tool_calls import LIMIT, ToolCalls

if TYPE_CHECKING:
    from hotseat.ollama.answers import Situation, Writer
    from hotseat.ollama.completions import Choice

LAST_EVENT = b"[DONE]"
MOST_OBJECTS, MOST_VALUES = 50_000, 2_000_000
"""Of a complete response: braces and commas, also inside of texts, since no model generates as many."""
UNFINISHED = "ended its stream without a reason to stop"


def writer_for(answer: Answer, situation: Situation) -> Writer:
    return ChatWriter(situation) if answer is Answer.MESSAGE else GenerateWriter(situation)


def done_reason(finish_reason: str | None) -> str:
    """Ollama knows these two for a generated text."""
    return LIMIT if finish_reason in (LIMIT, "limit") else "stop"


class StreamTranslator:
    """Events in, lines out."""

    __slots__ = ("_calls", "_end", "_events", "_is_done", "_reason", "_situation", "_writer")

    def __init__(self, answer: Answer, situation: Situation) -> None:
        self._situation = situation
        self._writer = writer_for(answer, situation)
        self._events = EventReader()
        self._calls = ToolCalls()
        self._end = End()
        self._reason = ""
        """Why the model stopped; empty until it has."""
        self._is_done = False

    def feed(self, data: bytes) -> tuple[bytes, UpstreamError | None]:
        """The lines that are complete now, and what the rest cannot be translated for."""
        lines: list[bytes] = []
        try:
            lines.extend(map(self._line, self._events.feed(data)))
        except UpstreamError as problem:
            return b"".join(lines), problem
        return b"".join(lines), None

    def end(self) -> bytes:
        """The rest of the lines; raises if the server did not finish its response."""
        if self._is_done:
            return b""
        if not self._reason:
            raise UpstreamError(f"the upstream {UNFINISHED}")
        return self._last()

    def _line(self, event: bytes) -> bytes:
        if self._is_done:
            return b""
        if event.rstrip() == LAST_EVENT:
            self._reason = self._reason or "stop"
            return self._last()
        piece = read_completion(event)
        if piece.usage is not None or piece.timings is not None:
            self._end.add(piece)
        if self._situation.first_piece_s is None:
            self._situation.first_piece_s = self._situation.elapsed_s()
        if not piece.choices:
            return self._without_choices(piece)
        return self._of_choice(piece.choices[0])

    def _of_choice(self, choice: Choice) -> bytes:
        if choice.finish_reason:
            self._reason = done_reason(choice.finish_reason)
        said = choice.delta
        if said is None:
            text, thinking = text_in(choice.text), b""
        else:
            text, thinking = text_in(said.content), text_in(said.reasoning_content) or text_in(said.reasoning)
            if said.tool_calls:
                self._calls.add(said.tool_calls)
        return self._writer.piece(text, thinking) if text or thinking else b""

    def _without_choices(self, piece: Completion) -> bytes:
        """The usage at the end, an error, or llama-server's own form."""
        raise_error_in(piece)
        if piece.stop:
            self._reason = done_reason(piece.stop_type)
        text = text_in(piece.content)
        return self._writer.piece(text, b"") if text else b""

    def _last(self) -> bytes:
        self._is_done = True
        calls = self._calls.translated(self._reason)
        return (self._writer.calls(calls) if calls else b"") + self._writer.last(self._reason, self._end)


def raise_error_in(piece: Completion) -> None:
    if (error := bytes(piece.error)) not in (b"", b"null"):
        raise UpstreamError(error_text(b'{"error":%b}' % error, 200))


# Complete responses


def translated(answer: Answer, situation: Situation, body: bytes) -> bytes:
    """A complete response of a model server as one object."""
    if body.count(b"{") > MOST_OBJECTS or body.count(b",") > MOST_VALUES:
        raise UpstreamError(f"the upstream's response has more than {MOST_OBJECTS} objects or {MOST_VALUES} values")
    if answer in (Answer.MESSAGE, Answer.RESPONSE):
        return _translated_completion(answer, situation, read_completion(body))
    return _translated_vectors(answer, situation, body)


def _translated_completion(answer: Answer, situation: Situation, whole: Completion) -> bytes:
    raise_error_in(whole)
    end, calls, writer = End(), ToolCalls(), writer_for(answer, situation)
    end.add(whole)
    if not whole.choices:
        if not bytes(whole.content):
            raise UpstreamError("the upstream's response is not a completion")
        return writer.last(done_reason(whole.stop_type), end, text_in(whole.content))
    choice = whole.choices[0]
    said = choice.message or Said(content=choice.text)
    calls.add_whole(said.tool_calls or ())
    reason = done_reason(choice.finish_reason)
    thinking = text_in(said.reasoning_content) or text_in(said.reasoning)
    return writer.last(reason, end, text_in(said.content), thinking, calls.translated(reason))


class _Vector(msgspec.Struct, gc=False):
    embedding: msgspec.Raw
    index: int = 0


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    usage: Usage | None = None


_read_vectors = msgspec.json.Decoder(_Vectors).decode


def _translated_vectors(answer: Answer, situation: Situation, body: bytes) -> bytes:
    try:
        vectors = _read_vectors(body)
    except UNREADABLE as problem:
        raise UpstreamError(f"the upstream's response cannot be translated: {problem}") from problem
    in_order = [vector.embedding for vector in sorted(vectors.data, key=lambda vector: vector.index)]
    if answer is Answer.EMBEDDING:
        return msgspec.json.encode({"embedding": in_order[0] if in_order else []})
    figures = {
        "total_duration": nanoseconds(situation.elapsed_s()),
        "load_duration": nanoseconds(situation.waited_s),
        "prompt_eval_count": (vectors.usage.prompt_tokens or 0) if vectors.usage is not None else 0,
    }
    return msgspec.json.encode({"model": situation.model, "embeddings": in_order, **readable(figures)})
