"""Copies server output to hotseat's standard output, line by line, without terminal control codes.

The work runs in the thread of `put`, not on the event loop.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hotseat.model_servers.plain_text import plain_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes, ModelName

LONGEST_LINE = 16 << 10
"""Bytes; a longer line is split."""


class StdoutCopy:
    def __init__(
        self, put: Callable[[Callable[[], bytes], Bytes], None], form: Callable[[ModelName, str], str]
    ) -> None:
        """`put` takes work for the writer's thread and the approximate size of its result."""
        self._put = put
        self._form = form
        self._unfinished: dict[ModelName, bytes] = {}

    def __call__(self, model: ModelName, chunk: bytes) -> None:
        self._put(partial(self._lines, model, chunk), len(chunk))

    def _lines(self, model: ModelName, chunk: bytes) -> bytes:
        """The complete lines so far: half of an escape sequence cannot be removed."""
        *complete, rest = (self._unfinished.pop(model, b"") + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            complete, rest = [*complete, rest], b""
        if rest:
            self._unfinished[model] = rest
        return "".join(f"{self._form(model, plain_line(line))}\n" for line in complete).encode()
