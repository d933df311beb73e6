"""Waits until released memory is really free."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB
from tests.support.virtual_time import in_virtual_time

from hotseat.hardware.measurement import DeviceReading
from hotseat.hardware.memory_release import until_free
from hotseat.identifiers import DeviceName

if TYPE_CHECKING:
    from collections.abc import Callable

GPU, RAM = DeviceName("gpu0"), DeviceName("ram")


@dataclass
class Lagging:
    """A driver that releases memory some time after the process is gone."""

    free_at: Callable[[float], int]
    lost: bool = False
    looks: list[float] = field(default_factory=list)

    async def devices(self) -> dict[DeviceName, DeviceReading]:
        now = asyncio.get_running_loop().time()
        self.looks.append(now)
        ram = {RAM: DeviceReading(64 * GiB, 60 * GiB)}
        return ram if self.lost else {GPU: DeviceReading(24 * GiB, self.free_at(now)), **ram}


@in_virtual_time
async def test_free_memory_costs_one_look() -> None:
    """There is no wait if enough is free."""
    gauge = Lagging(lambda now: 20 * GiB)
    freed = await until_free(gauge, {GPU: 18 * GiB, RAM: GiB})

    assert (freed.free, freed.missing, freed.took_s) == ({GPU: 20 * GiB, RAM: 60 * GiB}, {}, 0.0)
    assert len(gauge.looks) == 1


@pytest.mark.parametrize("lag_s", [0.03, 0.5, 1.5, 4.9])
def test_a_lagging_driver_is_noticed_soon(lag_s: float) -> None:
    """The delay is at most half of the driver's lag plus 20 ms, and never more than a quarter of a second."""

    @in_virtual_time
    async def wait() -> None:
        gauge = Lagging(lambda now: 20 * GiB if now >= lag_s else 2 * GiB)
        freed = await until_free(gauge, {GPU: 18 * GiB})

        assert not freed.missing
        assert lag_s <= freed.took_s <= lag_s + min(0.25, 0.02 + lag_s / 2)
        assert len(gauge.looks) < 40

    wait()


@in_virtual_time
async def test_memory_that_is_never_freed_is_reported_as_missing() -> None:
    """At the limit it returns what is free and what is missing; another program may have the memory."""
    freed = await until_free(Lagging(lambda now: 2 * GiB), {GPU: 18 * GiB, RAM: GiB}, within_s=1.0)

    assert freed.free[GPU] == 2 * GiB
    assert freed.missing == {GPU: 16 * GiB}
    assert freed.took_s == pytest.approx(1.0)


@in_virtual_time
async def test_a_device_that_does_not_answer_is_not_waited_for() -> None:
    """Its memory would stay unknown."""
    freed = await until_free(Lagging(lambda now: 0, lost=True), {GPU: 18 * GiB})

    assert (freed.free, freed.missing, freed.took_s) == ({}, {}, 0.0)
