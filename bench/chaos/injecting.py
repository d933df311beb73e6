"""Injects one fault after the other, drawn from the seed, and records them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from bench.chaos.client import RequestResult

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.2
RESTART = "restart"
"""hotseat is replaced by a new process. Explains nothing: no client may notice it."""
RESTARTED = "SIGTERM of a host"
HUNG = "a host hangs"
CLIENTLESS = "a host is cut off from clients"
POWERLESS = "power failure of a host"
AFTERMATH_S = 1.0
"""How long after its end a fault may still have effects."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that was injected, and when it was over."""

    name: str
    began: float
    ended: float
    rig: str = ""
    """The affected host, if only one can be affected."""

    def may_explain(self, began: float, ended: float) -> bool:
        return self.began <= ended and began <= self.ended + self._aftermath_s

    @property
    def _aftermath_s(self) -> float:
        """Lost packets are sent again after pauses that double: an answer, and the end of an idle connection after it,
        may arrive as long after the fault as that has lasted."""
        return max(AFTERMATH_S, self.ended - self.began) if self.name == CLIENTLESS else AFTERMATH_S


class Injector:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.injected: list[Injected] = []
        self.trouble: list[str] = []
        """Failures of a host itself."""
        self.asked: list[RequestResult] = []
        """What faults have asked themselves; checked like the clients' requests."""
        self._faults: dict[str, Callable[[], Awaitable[str | None]]] = {}
        """Each returns the name of the only host it can affect, if there is one."""

    def share(self, other: Injector) -> None:
        """Record everything where the other one does."""
        self.injected, self.trouble, self.asked = other.injected, other.trouble, other.asked

    @property
    def notes(self) -> list[str]:
        """Other measurements; for subclasses."""
        return []

    async def run(self, is_over: asyncio.Event) -> None:
        """Run until `is_over`; a fault in progress is ended first, so that everything works again."""
        while not is_over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._rng.uniform(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)):
                    await is_over.wait()
                    return
            await self.inject(self._draw())

    async def inject(self, name: str) -> None:
        began = time.monotonic()
        rig = await self._faults[name]()
        self.injected.append(Injected(name, began, time.monotonic(), rig or ""))

    def _draw(self) -> str:
        raise NotImplementedError
