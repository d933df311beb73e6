"""PURE: what model servers send: complete responses and events of streams, in OpenAI's form and in llama-server's own.

Texts stay as they are in JSON: they are passed on without being decoded. Calls of tools are collected until their
arguments are complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.identifiers import Seconds

NOTHING = msgspec.Raw(b"")
SHORTEST_TEXT = 3
"""Of a text in JSON that is not empty."""
MOST_OF_AN_ERROR = 64 << 10
"""Bytes; of more, only the beginning is shown."""
LONGEST_SHOWN = 500
LARGEST_FIGURE = 1 << 63
MOST_OF_AN_EVENT = 1 << 20
"""Bytes: more than any model generates, and little enough to be decoded at once."""
MOST_EVENTS = 6_000
"""In one read, which has 256 KiB at most: no server writes events of 43 bytes, and each costs some microseconds."""
LIMIT = "length"
"""The reason for which a response ends at its limit, in both APIs."""
MOST_CALLS, LONGEST_NAME, MOST_ARGUMENTS = 1_000, 1_024, 4 << 20
"""Pieces in one event and calls in a response; characters of a name or an id; bytes of all calls together."""


class EventReader:
    __slots__ = ("_data", "_partial", "_size")

    def __init__(self) -> None:
        self._partial = bytearray()
        """The begin of a line."""
        self._data: list[bytes] = []
        """Of an event that is not complete."""
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that are complete now. Comments and names of events are not needed."""
        if not self._partial and not self._data and _is_one_event(data):
            return [data[6:-2]]
        self._partial += data
        if b"\n" not in data:
            self._check_size(len(self._partial))
            return []
        *lines, rest = bytes(self._partial).split(b"\n")
        self._partial = bytearray(rest)
        events: list[bytes] = []
        for line in lines:  # there may be a quarter of a million: those that are not needed cost no call of ours
            if line.startswith(b"data:"):
                self._data.append(line[5:].removesuffix(b"\r").removeprefix(b" "))
                self._size += len(line)
                self._check_size(self._size)
            elif self._data and line in (b"", b"\r"):
                events.append(b"\n".join(self._data))
                self._data, self._size = [], 0
        if len(events) > MOST_EVENTS:
            raise UpstreamError(f"the upstream sent more than {MOST_EVENTS} tiny events at once")
        return events

    def _check_size(self, size: int) -> None:
        if size > MOST_OF_AN_EVENT:
            raise UpstreamError(f"the upstream sent an event of more than {MOST_OF_AN_EVENT} bytes")


def _is_one_event(data: bytes) -> bool:
    """Servers nearly always write one event at a time, in one line."""
    is_one_line = data.endswith(b"\n\n") and data.find(b"\n") == len(data) - 2
    return is_one_line and data.startswith(b"data: ") and not data.endswith(b"\r\n\n")


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


class _Object(msgspec.Struct):
    """Any members: they are checked and not kept."""


_read_object = msgspec.json.Decoder(_Object).decode


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments = bytearray()

    def is_continued_by(self, piece: CallPiece) -> bool:
        """A piece without a number: a new id begins a call, or without any id another name after the arguments."""
        if piece.id:
            return piece.id == self.id
        name = piece.function.name if piece.function is not None else None
        return not name or name == self.name or not self.arguments

    def translated(self) -> dict[str, Any]:
        """Ollama has the arguments as an object, OpenAI as a text with JSON in it."""
        text = bytes(self.arguments.strip()) or b"{}"
        try:
            _read_object(text)
        except UNREADABLE as problem:
            what = f'the arguments of the call of "{self.name}" are not a JSON object'
            raise UpstreamError(f"the upstream's response cannot be translated: {what}: {problem}") from problem
        in_one_line = text.replace(b"\n", b" ").replace(b"\r", b" ")  # these are only between values in JSON
        function = {"name": self.name, "arguments": msgspec.Raw(in_one_line)}
        return {"id": self.id, "function": function} if self.id else {"function": function}


class ToolCalls:
    __slots__ = ("_calls", "_last", "_size")

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._last = -1
        """The number of the call that the last piece belongs to."""
        self._size = 0

    def add(self, pieces: Sequence[CallPiece]) -> None:
        if len(pieces) > MOST_CALLS:
            raise UpstreamError(f"the upstream sent more than {MOST_CALLS} calls of tools at once")
        for piece in pieces:
            if piece.function is None and not piece.id:
                continue
            self._last = self._number(piece)
            call = self._calls.setdefault(self._last, _Call())
            call.id = piece.id or call.id
            if (function := piece.function) is not None:
                if function.name != call.name:  # some servers repeat it in every piece
                    call.name += function.name or ""
                arguments = (function.arguments or "").encode()
                call.arguments += arguments
                self._size += len(arguments)
            if max(len(call.id), len(call.name)) > LONGEST_NAME:
                raise UpstreamError(
                    f"the upstream sent a name or id of a tool call of more than {LONGEST_NAME} characters"
                )
        if len(self._calls) > MOST_CALLS or self._size > MOST_ARGUMENTS:
            text = f"more than {MOST_CALLS} calls of tools, or {MOST_ARGUMENTS} bytes of arguments"
            raise UpstreamError(f"the upstream sent {text}")

    def _number(self, piece: CallPiece) -> int:
        if piece.index is not None:
            return piece.index
        last = self._calls.get(self._last)
        return self._last if last is not None and last.is_continued_by(piece) else self._last + 1

    def add_whole(self, pieces: Sequence[CallPiece]) -> None:
        """Of a complete message: the order counts, and there need not be an index."""
        for index, piece in enumerate(pieces):
            piece.index = index
        self.add(pieces)

    def translated(self, reason: str) -> list[dict[str, Any]]:
        """The calls in Ollama's form. The last one is unfinished if the response ended at its limit: left out."""
        calls = [call for _, call in sorted(self._calls.items())]
        try:
            return [call.translated() for call in calls]
        except UpstreamError:
            if reason != LIMIT:
                raise
            return [call.translated() for call in calls[:-1]]
