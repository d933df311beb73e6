"""Reading a meter does not block the loop, even if the driver is slow, stuck or broken."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from tests.support.machines import GiB
from tests.support.waiting import come_true, come_true_async

from hotseat.hardware.background_meter import BackgroundMeter
from hotseat.hardware.measurement import DeviceReading, Reading, Sensors
from hotseat.identifiers import DeviceName

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

SEEN = {DeviceName("gpu0"): DeviceReading(24 * GiB, GiB)}


class Scripted:
    """A meter whose answers wait until the test releases them."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0
        self.problem: Exception | None = None

    def devices(self) -> dict[DeviceName, DeviceReading]:
        self.asked += 1
        self.may_answer.wait()
        if self.problem:
            raise self.problem
        return SEEN

    def sample(self, roots: Collection[int]) -> Reading:
        return Reading(self.devices(), {pid: {} for pid in roots})

    def sensors(self) -> dict[DeviceName, Sensors]:
        self.devices()
        return {DeviceName("gpu0"): Sensors(0.5)}


async def test_the_loop_goes_on_while_a_driver_thinks() -> None:
    """Other tasks run between the call and its result."""
    meter = Scripted()
    asked = asyncio.gather(BackgroundMeter(meter).sample([40]))
    await come_true(lambda: meter.asked)
    meter.may_answer.set()

    (reading,) = await asked

    assert reading == Reading(SEEN, {40: {}})


async def test_sensors_are_read_in_the_background_too() -> None:
    """The loop goes on meanwhile."""
    meter = Scripted()
    asked = asyncio.gather(BackgroundMeter(meter).sensors())
    await come_true(lambda: meter.asked)
    meter.may_answer.set()

    (seen,) = await asked

    assert seen == {"gpu0": Sensors(0.5)}


async def test_a_stuck_driver_costs_one_wait(caplog: pytest.LogCaptureFixture) -> None:
    """After the limit readings are empty, one line is logged, and no call is made until the stuck one returns."""
    meter = Scripted()
    gauge = BackgroundMeter(meter, limit_s=0.02)
    first = await gauge.devices()
    second = (await gauge.devices(), await gauge.sample([40]))
    asked_meanwhile = await come_true(lambda: meter.asked)
    logged = caplog.text
    meter.may_answer.set()
    await come_true_async(gauge.devices)

    assert (first, second) == ({}, ({}, Reading()))
    assert asked_meanwhile == 1
    assert logged.count("a driver does not respond") == 1


async def test_a_failing_meter_is_not_our_failure(caplog: pytest.LogCaptureFixture) -> None:
    """An exception in a driver is logged with its traceback and gives an empty reading."""
    meter = Scripted()
    meter.may_answer.set()
    meter.problem = RuntimeError("no such luck")

    assert await BackgroundMeter(meter).devices() == {}
    assert "memory could not be measured" in caplog.text
    assert "no such luck" in caplog.text


def test_an_answer_after_the_end_is_for_nobody() -> None:
    """A driver's call may outlast the loop that waits for it."""
    meter = Scripted()

    async def ask() -> object:
        return await BackgroundMeter(meter, limit_s=0.01).devices()

    assert asyncio.run(ask()) == {}
    meter.may_answer.set()
    for thread in [each for each in threading.enumerate() if each.name == "gauge"]:
        thread.join(60)
        assert not thread.is_alive()
