"""Measuring without waiting for a driver, at the right times, and until memory is free."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.support.machines import GiB
from tests.support.virtual_time import advance, in_virtual_time
from tests.support.waiting import come_true, come_true_async

from hotseat.identifiers import DeviceName, ModelName
from hotseat.memory.measurement import DeviceReading, Reading, Sensors, Use
from hotseat.memory.meter import BackgroundMeter, Measured, Polling, until_free
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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


QWEN, GEMMA, GPU = ModelName("qwen"), ModelName("gemma"), DeviceName("gpu0")


@dataclass
class PollingRig:
    """Running models, and the times of their measurements."""

    running: dict[ModelName, int] | None = field(default_factory=dict)
    looks: list[tuple[float, dict[ModelName, int]]] = field(default_factory=list)
    measured: list[Measured | None] = field(default_factory=list)
    pause_s: float | None = 5.0

    def __post_init__(self) -> None:
        self.rounds = Polling(self, lambda: self.running, self.measured.append, lambda: self.pause_s)

    async def sample(self, roots: Collection[int]) -> Reading:
        self.looks.append((asyncio.get_running_loop().time(), dict(self.running or {})))
        return Reading(processes={pid: {GPU: Use(pid)} for pid in roots if pid < 100})


@in_virtual_time
async def test_while_something_runs_it_is_looked_at_every_few_seconds() -> None:
    """Each model gets its own server's figures; a server that is not seen has none."""
    rig = PollingRig({QWEN: 40, GEMMA: 100})
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(11)
    await tasks.aclose()

    assert [at for at, _ in rig.looks] == [0.0, 5.0, 10.0]
    assert rig.measured[0]
    assert rig.measured[0].models == {QWEN: {GPU: Use(40)}}


@in_virtual_time
async def test_a_change_is_looked_at_at_once() -> None:
    """A start or a stop does not wait for the next round; without an interval, that measurement is the last."""
    rig = PollingRig({QWEN: 40}, pause_s=None)
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(1)
    rig.running = {}
    rig.rounds.look_now()
    await advance(60)
    rig.running = {GEMMA: 41}
    rig.rounds.look_now()
    await advance(1)
    await tasks.aclose()

    assert rig.looks == [(0.0, {QWEN: 40}), (1.0, {}), (61.0, {GEMMA: 41})]


@in_virtual_time
async def test_nobody_looks_where_nobody_wants_to_know() -> None:
    """No driver is woken, and the listener gets None."""
    rig = PollingRig(None, pause_s=None)
    tasks = Tasks()
    tasks.start(rig.rounds.walk(), "rounds")
    await advance(60)
    await tasks.aclose()

    assert (rig.looks, rig.measured) == ([], [None])


CARD, RAM = DeviceName("gpu0"), DeviceName("ram")


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
        return ram if self.lost else {CARD: DeviceReading(24 * GiB, self.free_at(now)), **ram}


@in_virtual_time
async def test_free_memory_costs_one_look() -> None:
    """There is no wait if enough is free."""
    gauge = Lagging(lambda now: 20 * GiB)
    freed = await until_free(gauge, {CARD: 18 * GiB, RAM: GiB})

    assert (freed.free, freed.missing, freed.took_s) == ({CARD: 20 * GiB, RAM: 60 * GiB}, {}, 0.0)
    assert len(gauge.looks) == 1


@pytest.mark.parametrize("lag_s", [0.03, 0.5, 1.5, 4.9])
def test_a_lagging_driver_is_noticed_soon(lag_s: float) -> None:
    """The delay is at most half of the driver's lag plus 20 ms, and never more than a quarter of a second."""

    @in_virtual_time
    async def wait() -> None:
        gauge = Lagging(lambda now: 20 * GiB if now >= lag_s else 2 * GiB)
        freed = await until_free(gauge, {CARD: 18 * GiB})

        assert not freed.missing
        assert lag_s <= freed.took_s <= lag_s + min(0.25, 0.02 + lag_s / 2)
        assert len(gauge.looks) < 40

    wait()


@in_virtual_time
async def test_memory_that_is_never_freed_is_reported_as_missing() -> None:
    """At the limit it returns what is free and what is missing; another program may have the memory."""
    freed = await until_free(Lagging(lambda now: 2 * GiB), {CARD: 18 * GiB, RAM: GiB}, within_s=1.0)

    assert freed.free[CARD] == 2 * GiB
    assert freed.missing == {CARD: 16 * GiB}
    assert freed.took_s == pytest.approx(1.0)


@in_virtual_time
async def test_a_device_that_does_not_answer_is_not_waited_for() -> None:
    """Its memory would stay unknown."""
    freed = await until_free(Lagging(lambda now: 0, lost=True), {CARD: 18 * GiB})

    assert (freed.free, freed.missing, freed.took_s) == ({}, {}, 0.0)
