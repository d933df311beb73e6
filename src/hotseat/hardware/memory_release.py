"""Waits for released memory to become free: a GPU's driver may take a second after the process is gone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.hardware.measurement import DeviceReading
    from hotseat.identifiers import Bytes, DeviceName, Seconds

WITHIN_S: Seconds = 5.0
FIRST_PAUSE_S: Seconds = 0.01
LONGEST_PAUSE_S: Seconds = 0.25


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
