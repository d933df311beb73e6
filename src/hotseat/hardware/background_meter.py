"""Reads the meter without blocking the event loop; if a driver hangs or fails, the reading is empty."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, TypeVar

from hotseat.hardware.measurement import Reading
from hotseat.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hotseat.hardware.machine import Meter
    from hotseat.hardware.measurement import DeviceReading, Sensors
    from hotseat.identifiers import DeviceName, Seconds

log = logging.getLogger(__name__)

T = TypeVar("T")

LIMIT_S: Seconds = 5.0
"""A card that wakes up may take a second; one that needs longer is stuck."""


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
