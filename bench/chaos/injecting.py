"""One fault after the other, drawn from the seed and written down."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.2
AFTERMATH_S = 1.0
"""How long after its end a fault may still be the reason of something."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected, and when it was over."""

    name: str
    began: float
    ended: float
    house: str = ""
    """Whom it befell, where only one can have felt it."""

    def may_explain(self, began: float, ended: float) -> bool:
        return self.began <= ended and began <= self.ended + AFTERMATH_S


class Injector:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.injected: list[Injected] = []
        self.trouble: list[str] = []
        """What went wrong with a house itself."""
        self._faults: dict[str, Callable[[], Awaitable[str | None]]] = {}
        """Each gives the name of the house that alone could feel it, if there is one."""

    async def run(self, is_over: asyncio.Event) -> None:
        """Until it is over; a fault that has begun is ended first, so that all is whole again."""
        while not is_over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._dice.uniform(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)):
                    await is_over.wait()
                    return
            await self.inject(self._draw())

    async def inject(self, name: str) -> None:
        began = time.monotonic()
        house = await self._faults[name]()
        self.injected.append(Injected(name, began, time.monotonic(), house or ""))

    def _draw(self) -> str:
        raise NotImplementedError
