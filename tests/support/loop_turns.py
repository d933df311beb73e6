"""How much work is done within one turn of the event loop, while other requests wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Turns:
    """Counts the turns of the event loop, and the most calls of a function within one turn."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls = self.most_in_a_turn = self._in_this_turn = 0
        self._function = function

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        self._in_this_turn += 1
        self.most_in_a_turn = max(self.most_in_a_turn, self._in_this_turn)
        return self._function(*args)

    async def keep_counting(self) -> None:
        while True:
            self._in_this_turn = 0
            await asyncio.sleep(0)
