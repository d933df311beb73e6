"""PURE: responses of Ollama's API: the lines of a stream, or one object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from hotseat.ollama.completions import nanoseconds, readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Seconds
    from hotseat.ollama.completions import Completion, Timings, Usage

_write = msgspec.json.encode
SECOND = 1_000_000_000
NO_TEXT = b'""'


class Situation(Struct):
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


class End(Struct):
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
