"""Schedules measurements: at once when a server starts or stops, and then at an interval."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.hardware.measurement import Reading, Use
    from hotseat.identifiers import DeviceName, ModelName, Seconds


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement, and the pids of the models in it."""

    reading: Reading
    models: Mapping[ModelName, Mapping[DeviceName, Use]]


class Samples(Protocol):
    async def sample(self, roots: Collection[int]) -> Reading: ...


class Polling:
    """Measures while `walk` runs.

    `running` gives the pid of each model's server, or None if no measurement is needed. `report` gets each measurement,
    None if there is none. `pause_s` gives the time to the next one; None: when something happens.
    """

    def __init__(
        self,
        gauge: Samples,
        running: Callable[[], Mapping[ModelName, int] | None],
        report: Callable[[Measured | None], None],
        pause_s: Callable[[], Seconds | None],
    ) -> None:
        self._gauge, self._running, self._report, self._pause_s = gauge, running, report, pause_s
        self._requested = asyncio.Event()

    def look_now(self) -> None:
        """A server became ready or stopped, or needs have changed: measure now."""
        self._requested.set()

    async def walk(self) -> None:
        """Never returns."""
        await forever(self._look_and_pause, "measure memory")

    async def _look_and_pause(self) -> None:
        self._requested.clear()
        await self._look()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s()):
                await self._requested.wait()

    async def _look(self) -> None:
        pids = self._running()
        if pids is None:
            return self._report(None)
        reading = await self._gauge.sample(tuple(pids.values()))
        models = {model: reading.processes[pid] for model, pid in pids.items() if pid in reading.processes}
        return self._report(Measured(reading, models))
