"""PURE: collects the calls of tools from the pieces of a response, until their arguments are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from hotseat.errors import UpstreamError
from hotseat.ollama.completions import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.ollama.completions import CallPiece

LIMIT = "length"
"""The reason for which a response ends at its limit, in both APIs."""
MOST_CALLS, LONGEST_NAME, MOST_ARGUMENTS = 1_000, 1_024, 4 << 20
"""Pieces in one event and calls in a response; characters of a name or an id; bytes of all calls together."""


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
