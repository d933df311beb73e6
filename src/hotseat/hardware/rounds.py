"""When to look: every few seconds while something runs, and at once when something began or ended."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.hardware.reading import Reading, Use
    from hotseat.terms import DeviceName, ModelName, Seconds

EVERY_S: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One look, and what of it belongs to which model."""

    reading: Reading
    models: Mapping[ModelName, Mapping[DeviceName, Use]]


class Samples(Protocol):
    async def sample(self, roots: Collection[int]) -> Reading: ...


class Rounds:
    """Looks for as long as `walk` runs; `running` says whose server has which pid, `hear` gets what was seen."""

    def __init__(
        self,
        gauge: Samples,
        running: Callable[[], Mapping[ModelName, int]],
        hear: Callable[[Measured], None],
        every_s: Seconds = EVERY_S,
    ) -> None:
        self._gauge, self._running, self._hear, self._every_s = gauge, running, hear, every_s
        self._wished = asyncio.Event()

    def look_now(self) -> None:
        """Something became ready or stopped: the next look is now, and with nothing running it is the last."""
        self._wished.set()

    async def walk(self) -> None:
        """Never returns."""
        while True:
            self._wished.clear()
            await self._look()
            await self._pause()

    async def _look(self) -> None:
        pids = self._running()
        reading = await self._gauge.sample(tuple(pids.values()))
        models = {model: reading.processes[pid] for model, pid in pids.items() if pid in reading.processes}
        self._hear(Measured(reading, models))

    async def _pause(self) -> None:
        """Nobody looks at a machine where nothing of ours runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every_s if self._running() else None):
                await self._wished.wait()
