"""The launcher that waits for memory, with a scripted meter and a virtual clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import GIB, gpu, level, model, one_at_a_time, sleeps, with_budget
from tests.support.fake_launcher import FakeLauncher
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.catalog.spec import GpuChoice, on_cards
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import LoadFailed
from hotseat.identifiers import ANY_GPU, HOST_MEMORY, DeviceName, LaunchId, ModelName
from hotseat.memory.launcher import MemoryGatedLauncher
from hotseat.memory.measurement import DeviceReading
from hotseat.scheduling.commands import Cause, PutToSleep, StartUpstream, StopUpstream, WakeUp
from hotseat.scheduling.events import UpstreamFailed, UpstreamReady
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Place

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
TWO = with_budget(model("qwen", gib=20), model("llama", gib=20))


class Card:
    """Memory that is released after a while."""

    def __init__(self, free_at: float = 0) -> None:
        self.free_at = free_at
        self.asked = 0

    async def devices(self) -> Mapping[DeviceName, DeviceReading]:
        self.asked += 1
        is_free = asyncio.get_running_loop().time() >= self.free_at
        return {gpu(0).device: DeviceReading(24 * GIB, 24 * GIB if is_free else 2 * GIB)}


def opened(card: Card, catalog: Catalog = TWO, **launcher: tuple[str, ...]) -> Dispatcher:
    scheduler = Scheduler(catalog)
    return Dispatcher(scheduler, MemoryGatedLauncher(FakeLauncher(**launcher), card, lambda: scheduler), Journal())


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_a_swap_waits_until_the_memory_is_free() -> None:
    """A process is gone before its memory is free."""
    card = Card()
    dispatcher = opened(card)
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 2
    await dispatcher.operator.load(LLAMA)
    loaded_at = now()
    await dispatcher.shut_down(within=0)

    assert card.free_at <= loaded_at < card.free_at + 0.5


@in_virtual_time
async def test_memory_of_a_sleeper_is_waited_for_too() -> None:
    """The model that replaces a sleeping one waits until its memory is free, and so does the sleeping one to wake."""
    card = Card()
    sleeper = model("qwen", gib=20, sleep=sleeps(level("1", memory={})))
    dispatcher = opened(card, with_budget(sleeper, model("llama", gib=20)))
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 2
    await dispatcher.operator.load(LLAMA)
    loaded_at, was_free_at = now(), card.free_at
    card.free_at = now() + 2
    await dispatcher.operator.load(QWEN)
    woken_at = now()
    await dispatcher.shut_down(within=0)

    assert was_free_at <= loaded_at < was_free_at + 0.5
    assert card.free_at <= woken_at < card.free_at + 0.5


@in_virtual_time
async def test_the_first_load_waits_for_nobody() -> None:
    """Nothing was released, so there is nothing to wait for."""
    card = Card(free_at=1000)
    dispatcher = opened(card)
    await dispatcher.operator.load(QWEN)
    await dispatcher.shut_down(within=0)

    assert card.asked == 0


@in_virtual_time
async def test_memory_that_never_comes_back() -> None:
    """After five seconds a measured figure decides: the error has the figures, and no server is started."""
    card = Card()
    dispatcher = opened(card)
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 1000
    began = now()
    with pytest.raises(LoadFailed) as refused:
        await dispatcher.operator.load(LLAMA)
    took = now() - began
    await dispatcher.shut_down(within=0)

    assert 5 <= took < 6
    assert str(refused.value) == (
        "llama needs 20 GiB of gpu0 (declared), but only 2 GiB is free 5 s after another server exited."
        " Run `hotseat devices` to see what uses it."
    )


@in_virtual_time
async def test_an_estimate_refuses_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """An estimate may be wrong: the server is started anyway, and the log has the figures."""
    card = Card()
    guess = {gpu(0): 20 * GIB}
    dispatcher = opened(card, with_budget(model("qwen", gib=20), model("llama", estimated=guess)))
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 1000
    began = now()
    await dispatcher.operator.load(LLAMA)
    took = now() - began
    await dispatcher.shut_down(within=0)

    assert 5 <= took < 6
    assert "memory was not released model=llama device=gpu0 needed='19 GiB' free='2 GiB'" in caplog.text


@in_virtual_time
async def test_an_old_measurement_refuses_no_start_alone() -> None:
    """What was measured above the budget may be wrong, too."""
    card, big = Card(), ModelName("big")
    scheduler = Scheduler(with_budget(model("qwen", gib=20), model("big")), {big: {gpu(0): 30 * GIB}})
    dispatcher = Dispatcher(scheduler, MemoryGatedLauncher(FakeLauncher(), card, lambda: scheduler), Journal())
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 1000
    await dispatcher.operator.load(big)
    is_running = dispatcher.questions.is_running(big)
    await dispatcher.shut_down(within=0)

    assert is_running


class LauncherShortOfMemory(FakeLauncher):
    """llama's server exits at once while its memory is not free."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self.card = card
        self.starts: list[ModelName] = []

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        self.starts.append(command.model)
        self.broken = ("llama",) if now() < self.card.free_at else ()
        return await super().start(command)


def short_of_memory(card: Card) -> tuple[Dispatcher, LauncherShortOfMemory]:
    guess = {gpu(0): 20 * GIB}
    scheduler = Scheduler(with_budget(model("qwen", gib=20), model("llama", estimated=guess)))
    launcher = LauncherShortOfMemory(card)
    return Dispatcher(scheduler, MemoryGatedLauncher(launcher, card, lambda: scheduler), Journal()), launcher


@in_virtual_time
@pytest.mark.parametrize(("late_by", "starts"), [(8, 2), (1000, 1)])
async def test_a_start_that_failed_for_want_of_memory_is_tried_once_more(late_by: float, starts: int) -> None:
    """It is retried if the memory became free after all; otherwise the server's own output is the error."""
    card = Card()
    dispatcher, launcher = short_of_memory(card)
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + late_by
    outcome = (await asyncio.gather(dispatcher.operator.load(LLAMA), return_exceptions=True))[0]
    await dispatcher.shut_down(within=0)

    assert launcher.starts.count(LLAMA) == starts
    assert str(outcome) == ("None" if starts == 2 else "llama exited with code 1")


@in_virtual_time
async def test_a_start_that_nobody_wants_is_not_tried_again() -> None:
    """It failed because it was told to stop, even if memory is missing too."""
    card = Card()
    dispatcher, launcher = short_of_memory(card)
    launcher.slow = ("llama",)
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 5.5
    loading = Tasks().start(dispatcher.operator.load(LLAMA), "load")
    await advance(5.2)  # it has waited for memory and was started
    await dispatcher.operator.unload(LLAMA)
    await asyncio.gather(loading, return_exceptions=True)
    await dispatcher.shut_down(within=0)

    assert launcher.starts == [QWEN, LLAMA]


@in_virtual_time
async def test_a_load_that_is_stopped_while_it_waits_for_memory() -> None:
    """No server is started for a cancelled load."""
    card = Card()
    dispatcher = opened(card)
    await dispatcher.operator.load(QWEN)
    card.free_at = now() + 1000
    tasks = Tasks()
    loading = tasks.start(dispatcher.operator.load(LLAMA), "load")
    await advance(1)
    await dispatcher.operator.unload(LLAMA)
    outcome = (await asyncio.gather(loading, return_exceptions=True))[0]
    running = dispatcher.views.current().running()
    await dispatcher.shut_down(within=0)

    assert "stopped by an operator" in str(outcome)
    assert running == ()


class Turning(Card):
    """Memory that is free at once, followed by an action so many iterations of the loop later."""

    def __init__(self, turns: int, then: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self.tasks = Tasks()
        self._turns, self._then = turns, then

    async def devices(self) -> Mapping[DeviceName, DeviceReading]:
        self.tasks.start(self._later(), "later")
        return await super().devices()

    async def _later(self) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        await self._then()


@in_virtual_time
@pytest.mark.parametrize("turns", range(8))
async def test_a_stop_that_comes_as_the_memory_is_free(turns: int) -> None:
    """Before, during or after the start: the unload returns, and no server is left running."""
    card = Turning(turns, lambda: dispatcher.operator.unload(LLAMA))
    launcher = FakeLauncher()
    scheduler = Scheduler(TWO)
    dispatcher = Dispatcher(scheduler, MemoryGatedLauncher(launcher, card, lambda: scheduler), Journal())
    await dispatcher.operator.load(QWEN)
    await asyncio.gather(dispatcher.operator.load(LLAMA), return_exceptions=True)
    async with asyncio.timeout(10):
        await asyncio.gather(*card.tasks)
    running, alive = dispatcher.views.current().running(), launcher.alive
    await dispatcher.shut_down(within=0)

    assert (running, alive) == ((), [])


@in_virtual_time
async def test_a_failed_start_gives_memory_back_too() -> None:
    """The next start waits for the memory that it had taken."""
    card = Card()
    dispatcher = opened(card, broken=("qwen",))
    await asyncio.gather(dispatcher.operator.load(QWEN), return_exceptions=True)
    card.free_at = now() + 2
    await dispatcher.operator.load(LLAMA)
    loaded_at = now()
    await dispatcher.shut_down(within=0)

    assert loaded_at >= card.free_at


@in_virtual_time
async def test_without_budgets_nobody_asks_for_memory() -> None:
    """A swap takes no longer because of it."""
    card = Card()
    dispatcher = opened(card, one_at_a_time("qwen", "llama"))
    await dispatcher.operator.load(QWEN)
    await dispatcher.operator.load(LLAMA)
    await dispatcher.shut_down(within=0)

    assert card.asked == 0


@in_virtual_time
async def test_nobody_waits_where_nothing_is_measured() -> None:
    """With measuring switched off, starts do not measure."""
    card = Card(free_at=100)
    scheduler = Scheduler(TWO)
    dispatcher = Dispatcher(scheduler, MemoryGatedLauncher(FakeLauncher(), card, lambda: None), Journal())
    await dispatcher.operator.load(QWEN)
    await dispatcher.operator.load(LLAMA)
    await dispatcher.shut_down(within=0)

    assert card.asked == 0


# Models whose cards were chosen for the start


class TwoCards(Card):
    """The first card is full, the second becomes free."""

    async def devices(self) -> Mapping[DeviceName, DeviceReading]:
        second = (await super().devices())[gpu(0).device]
        return {gpu(0).device: DeviceReading(24 * GIB, 0), gpu(1).device: second}


CHOICE = GpuChoice(None, (gpu(0), gpu(1)))
PLACED = replace(model("llama", gpus=CHOICE, sleep=sleeps()), memory={ANY_GPU: 20 * GIB})


async def started_after_a_stop(card: Card, gpus: tuple[Place, ...]) -> tuple[MemoryGatedLauncher, object]:
    """llama starts on these cards when the server of another model has just exited."""
    catalog = with_budget(model("qwen", gib=20), PLACED, gib={0: 24, 1: 24})
    scheduler = Scheduler(catalog)
    launcher = MemoryGatedLauncher(FakeLauncher(), card, lambda: scheduler)
    ready = await launcher.start(StartUpstream(QWEN, LaunchId(1), catalog.models[QWEN], "test"))
    assert isinstance(ready, UpstreamReady)
    await launcher.stop(StopUpstream(QWEN, LaunchId(1), Cause.EVICTION, "test"))
    await launcher.watch(ready)
    return launcher, await launcher.start(StartUpstream(LLAMA, LaunchId(2), PLACED, "test", gpus))


@in_virtual_time
async def test_a_start_waits_for_the_card_that_was_chosen() -> None:
    """Another card may be full."""
    card = TwoCards(free_at=now() + 2)
    _, started = await started_after_a_stop(card, (gpu(1),))

    assert isinstance(started, UpstreamReady)
    assert card.free_at <= now() < card.free_at + 0.5


@in_virtual_time
async def test_a_wake_waits_for_the_cards_of_the_process() -> None:
    """It has had them since its start."""
    card = TwoCards()
    launcher, _ = await started_after_a_stop(card, (gpu(1),))
    await launcher.put_to_sleep(PutToSleep(LLAMA, LaunchId(2), level("1"), "test"))
    card.free_at = now() + 2
    await launcher.wake_up(WakeUp(LLAMA, LaunchId(2), level("1"), "test"))

    assert card.free_at <= now() < card.free_at + 0.5


@in_virtual_time
async def test_one_card_that_stays_full_refuses_a_declared_figure() -> None:
    """The error names the card that was chosen."""
    _, started = await started_after_a_stop(TwoCards(free_at=now() + 1000), (gpu(1),))

    assert isinstance(started, UpstreamFailed)
    assert started.error.message.startswith("llama needs 20 GiB of gpu1 (declared), but only 2 GiB is free 5 s after")


@in_virtual_time
async def test_several_cards_refuse_nobody() -> None:
    """How a server splits its memory over them is its own decision, so it is started after the wait."""
    _, started = await started_after_a_stop(TwoCards(), (gpu(0), gpu(1)))

    assert isinstance(started, UpstreamReady)
    assert now() >= 5


def test_memory_is_split_by_the_sizes_of_the_cards() -> None:
    """No byte is lost; without cards nobody knows where the memory will be."""
    memory = {ANY_GPU: 10, HOST_MEMORY: 7}
    sizes = {gpu(0): 20, gpu(1): 10, gpu(2): 99}

    assert on_cards(memory, (gpu(0), gpu(1)), sizes) == {gpu(0): 7, gpu(1): 4, HOST_MEMORY: 7}
    assert on_cards(memory, (gpu(2),), sizes) == {gpu(2): 10, HOST_MEMORY: 7}
    assert on_cards(memory, (), sizes) == {HOST_MEMORY: 7}
    assert on_cards({gpu(1): 3}, (gpu(1),), sizes) == {gpu(1): 3}
