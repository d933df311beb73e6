"""How much work is done within one turn of the event loop, while other requests wait."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Turns:
    """Counts the turns of the event loop, and the most calls of a function within one turn."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls = self.most_in_a_turn = self._in_this_turn = 0
        self._function = function

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        self._in_this_turn += 1
        self.most_in_a_turn = max(self.most_in_a_turn, self._in_this_turn)
        return self._function(*args, **options)

    def __get__(self, instance: object, owner: type) -> Any:
        """As a method counts too."""
        return self if instance is None else partial(self, instance)

    async def keep_counting(self) -> None:
        while True:
            self._in_this_turn = 0
            await asyncio.sleep(0)


class LongestCallback:
    """The most processor time that one callback of an asyncio loop in this thread takes inside the block.

    Processor time of the loop's own thread: other programs, threads and clients do not count.
    """

    def __init__(self) -> None:
        self.seconds, self.what = 0.0, ""

    def __enter__(self) -> LongestCallback:
        self._run = run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            since = time.thread_time()
            run(handle)
            seconds = time.thread_time() - since
            if seconds > self.seconds:
                self.seconds, self.what = seconds, repr(handle)

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
