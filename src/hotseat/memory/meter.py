"""Asks the meter of real devices without blocking the event loop, at the right times.

If a driver hangs or fails, the reading is empty. Memory is measured at once when a server starts or stops, and then at
an interval. Released memory takes a while to become free: a GPU's driver may need a second after the process is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from hotseat.memory.measurement import Reading
from hotseat.tasks import forever
from hotseat.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.identifiers import Bytes, DeviceName, ModelName, Seconds
    from hotseat.memory.machine import Meter
    from hotseat.memory.measurement import DeviceReading, Sensors, Use

log = logging.getLogger(__name__)
T = TypeVar("T")
LIMIT_S: Seconds = 5.0
"""A card that wakes up may take a second; one that needs longer is stuck."""
WITHIN_S: Seconds = 5.0
FIRST_PAUSE_S: Seconds = 0.01
LONGEST_PAUSE_S: Seconds = 0.25


class BackgroundMeter:
    def __init__(self, meter: Meter, limit_s: Seconds = LIMIT_S) -> None:
        self._meter, self._limit_s = meter, limit_s
        self._stuck = 0
        """Calls that timed out and have still not returned."""

    async def devices(self) -> Mapping[DeviceName, DeviceReading]:
        """Every device that answers; none while the driver is stuck."""
        return await self._ask(self._meter.devices, {})

    async def sample(self, roots: Collection[int]) -> Reading:
        """Also what these process trees take; an empty reading while the driver is stuck."""
        return await self._ask(lambda: self._meter.sample(roots), Reading())

    async def sensors(self) -> Mapping[DeviceName, Sensors]:
        """Of each GPU whose driver reports something; none while a driver is stuck."""
        return await self._ask(self._meter.sensors, {})

    async def _ask(self, question: Callable[[], T], unknown: T) -> T:
        if self._stuck:
            return unknown
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # A new daemon thread for each call: a call that never returns from the driver must block neither the next
        # call nor our exit, as it would in an executor.
        start_thread("gauge", settle, answer, question, unknown)
        done, _ = await asyncio.wait([answer], timeout=self._limit_s)
        if done:
            return answer.result()
        log.warning("device memory cannot be read because a driver does not respond limit_s=%g", self._limit_s)
        self._stuck += 1
        answer.add_done_callback(self._came_late)
        return unknown

    def _came_late(self, _: asyncio.Future[T]) -> None:
        self._stuck -= 1


def settle(answer: asyncio.Future[T], question: Callable[[], T], unknown: T) -> None:
    """Call in this thread, and set the result in the event loop."""
    try:
        value = question()
    except Exception:
        log.exception("memory could not be measured")
        value = unknown
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        answer.get_loop().call_soon_threadsafe(answer.set_result, value)


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


class Watches(Protocol):
    async def devices(self) -> Mapping[DeviceName, DeviceReading]: ...


@dataclass(frozen=True, slots=True)
class Freed:
    """The result of a wait: what is free on the devices that answer, and how long the wait took."""

    free: Mapping[DeviceName, Bytes]
    missing: Mapping[DeviceName, Bytes]
    """What is still lacking; empty: all of it is free."""
    took_s: Seconds


async def until_free(gauge: Watches, needs: Mapping[DeviceName, Bytes], within_s: Seconds = WITHIN_S) -> Freed:
    """Return when enough is free or the time is over. Does not wait for a device that does not answer."""
    loop = asyncio.get_running_loop()
    began, pause = loop.time(), FIRST_PAUSE_S
    while True:
        seen = await gauge.devices()
        free = {device: seen[device].free for device in needs if device in seen}
        missing = {device: needs[device] - has for device, has in free.items() if has < needs[device]}
        took_s = loop.time() - began
        if not missing or took_s >= within_s:
            return Freed(free, missing, took_s)
        await asyncio.sleep(min(pause, within_s - took_s))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
