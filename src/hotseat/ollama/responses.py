"""PURE: responses of model servers as responses of Ollama's API: the lines of a stream, or one object.

A stream is translated piece by piece; nothing is kept of it except the calls of tools, which Ollama sends as a whole.
Events, calls and whole responses have limits in size and number; what exceeds one is an error, never a clean end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import UpstreamError
from hotseat.ollama.completions import (
    LIMIT,
    UNREADABLE,
    Completion,
    EventReader,
    Said,
    ToolCalls,
    Usage,
    error_text,
    nanoseconds,
    read_completion,
    readable,
    text_in,
)
from hotseat.ollama.requests import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Seconds
    from hotseat.ollama.completions import Choice, Timings

LAST_EVENT = b"[DONE]"
MOST_OBJECTS, MOST_VALUES = 50_000, 2_000_000
"""Of a complete response: braces and commas, also inside of texts, since no model generates as many."""
UNFINISHED = "ended its stream without a reason to stop"
SECOND = 1_000_000_000
NO_TEXT = b'""'
_write = msgspec.json.encode


class Situation(msgspec.Struct):
    """What a response says beside what the model server says."""

    model: str
    """As the client wrote it."""
    wall_clock_ns: Callable[[], int]
    elapsed_s: Callable[[], Seconds]
    """Since the request arrived."""
    waited_s: Seconds
    """For the model."""
    first_piece_s: Seconds | None = None
    """When the response began; None if it came as a whole."""


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


def done_reason(finish_reason: str | None) -> str:
    """Ollama knows these two for a generated text."""
    return LIMIT if finish_reason in (LIMIT, "limit") else "stop"


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


def writer_for(answer: Answer, situation: Situation) -> Writer:
    return ChatWriter(situation) if answer is Answer.MESSAGE else GenerateWriter(situation)


class Writer:
    """Writes the lines of one response. Every line has the model's name and the time."""

    __slots__ = ("_begin", "_date", "_of_second", "_situation")

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._begin = b'{"model":%b,"created_at":"' % _write(situation.model)
        self._of_second = -1
        self._date = b""

    def _head(self) -> bytes:
        second, rest = divmod(self._situation.wall_clock_ns(), SECOND)
        if second != self._of_second:  # many lines have the same one, and it takes longer than the rest of the line
            self._of_second = second
            self._date = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
        return b'%b%b.%09dZ",' % (self._begin, self._date, rest)

    def piece(self, text: bytes, thinking: bytes) -> bytes:
        """A line with the next part of the response; both texts are JSON, and empty if there is none."""
        return b'%b%b,"done":false}\n' % (self._head(), self._said(text or NO_TEXT, thinking, b""))

    def calls(self, calls: list[dict[str, Any]]) -> bytes:
        """A line with the calls of tools."""
        return b'%b%b,"done":false}\n' % (self._head(), self._said(NO_TEXT, b"", _write(calls)))

    def last(
        self, reason: str, end: End, text: bytes = b"", thinking: bytes = b"", calls: list[dict[str, Any]] | None = None
    ) -> bytes:
        """The last line of a stream, or the only object of another response."""
        said = self._said(text or NO_TEXT, thinking, _write(calls) if calls else b"")
        figures = _write({"done": True, "done_reason": reason, **end.figures(self._situation)})
        return b"%b%b,%b\n" % (self._head(), said, figures[1:])

    def _said(self, text: bytes, thinking: bytes, calls: bytes) -> bytes:
        raise NotImplementedError


class ChatWriter(Writer):
    __slots__ = ()

    def _said(self, text: bytes, thinking: bytes, calls: bytes) -> bytes:
        if not thinking and not calls:
            return b'"message":{"role":"assistant","content":%b}' % text
        more = (b',"thinking":%b' % thinking if thinking else b"") + (b',"tool_calls":%b' % calls if calls else b"")
        return b'"message":{"role":"assistant","content":%b%b}' % (text, more)


class GenerateWriter(Writer):
    __slots__ = ()

    def _said(self, text: bytes, thinking: bytes, calls: bytes) -> bytes:
        return b'"response":%b,"thinking":%b' % (text, thinking) if thinking else b'"response":%b' % text


class End(msgspec.Struct):
    """What the last pieces of a response say about all of it."""

    usage: Usage | None = None
    timings: Timings | None = None

    def add(self, piece: Completion) -> None:
        self.usage = piece.usage or self.usage
        self.timings = piece.timings or self.timings

    def figures(self, situation: Situation) -> dict[str, int]:
        """In nanoseconds. Clients divide by durations, so those that nobody measured are left out."""
        total_s = situation.elapsed_s()
        return readable({
            "total_duration": nanoseconds(total_s),
            "load_duration": nanoseconds(situation.waited_s),
            **self._counts(),
            **self._durations(situation, total_s),
        })  # fmt: skip

    def _counts(self) -> dict[str, int]:
        timings, usage = self.timings, self.usage
        prompt, generated = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else (None, None)
        if timings is not None:
            prompt = (timings.prompt_n or 0) + (timings.cache_n or 0) if prompt is None else prompt
            generated = timings.predicted_n if generated is None else generated
        return {"prompt_eval_count": prompt or 0, "eval_count": generated or 0}

    def _durations(self, situation: Situation, total_s: Seconds) -> dict[str, float]:
        """The server's own figures, or else what was seen of it from here."""
        if (timings := self.timings) is not None:
            prompt_s, generation_s = (timings.prompt_ms or 0) / 1e3, (timings.predicted_ms or 0) / 1e3
        else:
            first_s = situation.waited_s if situation.first_piece_s is None else situation.first_piece_s
            prompt_s, generation_s = first_s - situation.waited_s, total_s - first_s
        return {"prompt_eval_duration": nanoseconds(prompt_s), "eval_duration": nanoseconds(generation_s)}


def error_line(text: str) -> bytes:
    return _write({"error": text}) + b"\n"
