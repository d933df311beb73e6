"""The steps of swaps, found in the journal of a real dispatcher and scheduler."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import one_at_a_time, sleeps
from tests.support.containers import sizes
from tests.support.fake_launcher import FakeLauncher, spec
from tests.support.waiting import come_true

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Entry, Journal
from hotseat.errors import LoadFailed
from hotseat.identifiers import Address, ClientId, LaunchId, ModelName, Upstream
from hotseat.scheduling.commands import Allowance, Cause, Evicted, ReportSwap, SaveConversations, StopUpstream
from hotseat.scheduling.events import (
    ClockReached,
    ConversationsSaved,
    ServerAdopted,
    Transfer,
    UpstreamExited,
    UpstreamReady,
)
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tracing.swap_steps import KEPT, Step, SwapSteps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event

ALPHA, BETA = ModelName("alpha"), ModelName("beta")
TICK_S = 0.001
STEP_BYTES = 100
"""What a step takes at least."""
FOREVER = (float("-inf"), float("inf"))


class Rig:
    """One model at a time, and a clock that the test sets; with `tick_s` it goes on each time that it is read."""

    def __init__(self, launcher: FakeLauncher, tick_s: float = 0.0, **of_alpha: object) -> None:
        self.now, self._tick_s = 0.0, tick_s
        self.launcher = launcher
        journal = Journal()
        self.steps = SwapSteps(self.clock)
        journal.listen(self.steps.watch)
        catalog = one_at_a_time(spec("alpha", **of_alpha), spec("beta"))
        self.dispatcher = Dispatcher(Scheduler(catalog), launcher, journal, self.clock)

    def clock(self) -> float:
        self.now += self._tick_s
        return self.now

    def taken_for(self, model: ModelName) -> list[tuple[str, str]]:
        return [(step.name, step.model) for step in self.steps.of_wait(model, *FOREVER)]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Rig]]:
    rigs: list[Rig] = []

    def open_rig(launcher: FakeLauncher | None = None, tick_s: float = 0.0, **of_alpha: object) -> Rig:
        rigs.append(Rig(launcher or FakeLauncher(), tick_s, **of_alpha))
        return rigs[-1]

    yield open_rig
    for rig in rigs:
        await rig.dispatcher.shut_down(within=0)


class Holder:
    """Holds a lease until the test gives it back."""

    def granted(self, upstream: Upstream, reason: str = "") -> None: ...
    def confirmed(self) -> None: ...
    def refused(self, error: Exception) -> None: ...
    def cut(self, error: Exception) -> None: ...


async def test_a_model_that_is_loaded_into_free_memory(opened: Callable[..., Rig]) -> None:
    """The start alone."""
    rig = opened(FakeLauncher(slow=("alpha",)))
    rig.now = 10.0
    async with asyncio.TaskGroup() as loading:
        loading.create_task(rig.dispatcher.operator.load(ALPHA))
        await come_true(lambda: rig.launcher.is_starting("alpha"))
        rig.now = 12.5
        rig.launcher.become_ready("alpha")

    assert rig.steps.of_wait(ALPHA, *FOREVER) == [
        Step("start", ALPHA, "loaded explicitly (operator or preload)", 10.0, 12.5)
    ]


async def test_a_model_that_another_one_is_drained_and_stopped_for(opened: Callable[..., Rig]) -> None:
    """The drain lasts from the eviction to the stop, and each step has its reason."""
    rig = opened()
    await rig.dispatcher.operator.load(ALPHA)
    ticket = rig.dispatcher.ask(ALPHA, ClientId("one"), Holder())
    rig.now = 5.0
    other = rig.dispatcher.ask(BETA, ClientId("other"), Holder())
    rig.now = 1000.0  # whatever protected alpha is over
    rig.dispatcher.tell(ClockReached())
    rig.now = 1003.0
    rig.dispatcher.leave(ticket)
    await come_true(lambda: rig.dispatcher.questions.is_running(BETA))
    drain, stop, start = rig.steps.of_wait(BETA, *FOREVER)
    rig.dispatcher.leave(other)

    assert drain == Step("drain", ALPHA, "its turn was over (1 request running)", 1000.0, 1003.0)
    assert (stop.name, stop.model, stop.reason) == (
        "stop",
        ALPHA,
        "unloaded for beta: models run one at a time without `devices`",
    )
    assert (start.name, start.model, start.reason) == ("start", BETA, "started for 1 request")
    assert rig.steps.of_wait(BETA, 1004.0, 1005.0) == []
    assert rig.steps.of_wait(BETA, 900.0, 1001.0) == [drain]


async def test_models_whose_conversations_are_kept(opened: Callable[..., Rig]) -> None:
    """They are saved between the drain and the stop, and restored after the next start."""
    launcher = FakeLauncher()
    launcher.conversations = (Transfer(tokens=5000, size=1 << 20, took_s=0.1),)
    rig = opened(launcher, TICK_S, keeps_conversations=True)
    await rig.dispatcher.operator.load(ALPHA)
    rig.dispatcher.leave(rig.dispatcher.ask(ALPHA, ClientId("one"), Holder()))
    await rig.dispatcher.operator.load(BETA)
    await rig.dispatcher.operator.load(ALPHA)

    assert rig.taken_for(BETA) == [("drain", ALPHA), ("save", ALPHA), ("stop", ALPHA), ("start", BETA)]
    assert rig.taken_for(ALPHA) == [
        ("start", ALPHA), ("drain", BETA), ("stop", BETA), ("start", ALPHA), ("restore", ALPHA),
    ]  # fmt: skip


async def test_models_that_sleep(opened: Callable[..., Rig]) -> None:
    """They are put to sleep and woken instead."""
    rig = opened(tick_s=TICK_S, sleep=sleeps())
    await rig.dispatcher.operator.load(ALPHA)
    await rig.dispatcher.operator.load(BETA)
    await rig.dispatcher.operator.load(ALPHA)

    assert rig.taken_for(BETA) == [("drain", ALPHA), ("sleep", ALPHA), ("start", BETA)]
    assert rig.taken_for(ALPHA)[-3:] == [("drain", BETA), ("stop", BETA), ("wake", ALPHA)]


async def test_a_model_that_cannot_be_put_to_sleep(opened: Callable[..., Rig]) -> None:
    """The failed step is shown, and the stop that follows."""
    launcher = FakeLauncher()
    launcher.cannot_sleep = ("alpha",)
    rig = opened(launcher, TICK_S, sleep=sleeps())
    await rig.dispatcher.operator.load(ALPHA)
    await rig.dispatcher.operator.load(BETA)
    failed = [step.name for step in rig.steps.of_wait(BETA, *FOREVER) if step.has_failed]

    assert rig.taken_for(BETA) == [("drain", ALPHA), ("sleep", ALPHA), ("stop", ALPHA), ("start", BETA)]
    assert failed == ["sleep"]


async def test_a_model_that_cannot_be_woken(opened: Callable[..., Rig]) -> None:
    """It is stopped and started again."""
    launcher = FakeLauncher()
    launcher.dead_asleep = ("alpha",)
    rig = opened(launcher, TICK_S, sleep=sleeps())
    await rig.dispatcher.operator.load(ALPHA)
    await rig.dispatcher.operator.load(BETA)
    await rig.dispatcher.operator.load(ALPHA)
    steps = rig.steps.of_wait(ALPHA, *FOREVER)

    assert [(step.name, step.has_failed) for step in steps if step.model == ALPHA] == [
        ("start", False), ("wake", True), ("start", False),
    ]  # fmt: skip


async def test_a_start_that_fails(opened: Callable[..., Rig]) -> None:
    """It is shown as failed, without the error, which may quote the server's output."""
    launcher = FakeLauncher(broken=("alpha",))
    launcher.output = ("prompt: my secret",)
    rig = opened(launcher)
    with pytest.raises(LoadFailed):
        await rig.dispatcher.operator.load(ALPHA)
    [step] = rig.steps.of_wait(ALPHA, *FOREVER)

    assert (step.name, step.has_failed) == ("start", True)
    assert "secret" not in repr(step)


# What a new process does not know


def entry(event: Event, *commands: Command) -> Entry:
    return Entry(1, 0.0, event, commands)


def swapped_for_beta(age_s: float) -> ReportSwap:
    went = Evicted(ALPHA, "idle", age_s, load_s=1.0, served=3)
    return ReportSwap(BETA, None, 1.0, 1.0, 1.0, (went,), "started for 1 request")


STOP = StopUpstream(ALPHA, LaunchId(1), Cause.EVICTION, "unloaded for beta: models run one at a time without `devices`")
SAVE = SaveConversations(ALPHA, LaunchId(1), Allowance(within_s=1.0, least_tokens=1, token_s=0.1), "unloaded for beta")
GONE = UpstreamExited(ALPHA, LaunchId(1), "exited with code 0")
READY = UpstreamReady(BETA, LaunchId(2), Upstream(Address("127.0.0.1", 1), 1))


def test_a_server_of_the_previous_process() -> None:
    """It says how long the server has been ready, so its drain is known."""
    now = [100.0]
    steps = SwapSteps(lambda: now[0])
    steps.watch(entry(ServerAdopted(ALPHA, LaunchId(1), spec("alpha"), Upstream(Address("h", 1), 1), ready_s=60.0)))
    now[0] = 108.0
    steps.watch(entry(GONE, STOP))  # the order of what is in one entry does not matter here
    steps.watch(entry(GONE))
    steps.watch(entry(READY, swapped_for_beta(age_s=65.0)))

    assert [(step.name, step.began, step.ended) for step in steps.of_wait(BETA, *FOREVER)] == [
        ("drain", 105.0, 108.0), ("stop", 108.0, 108.0),
    ]  # fmt: skip


def test_a_swap_that_began_before_this_process() -> None:
    """What is not known is left out."""
    steps = SwapSteps(lambda: 100.0)
    steps.watch(entry(READY, swapped_for_beta(age_s=5.0)))
    nothing = steps.of_wait(BETA, *FOREVER)
    steps.watch(entry(READY, STOP))
    steps.watch(entry(GONE))
    steps.watch(entry(READY, swapped_for_beta(age_s=5.0)))

    assert nothing == []
    assert [step.name for step in steps.of_wait(BETA, *FOREVER)] == ["stop"]


async def test_a_server_that_crashes(opened: Callable[..., Rig]) -> None:
    """Nobody stopped it, so there is no step."""
    rig = opened()
    await rig.dispatcher.operator.load(ALPHA)
    rig.launcher.crash("alpha", "killed")
    await come_true(lambda: not rig.dispatcher.views.current().running())

    assert rig.taken_for(ALPHA) == [("start", ALPHA)]


def test_a_save_that_ends_after_its_server() -> None:
    """It is left out, and nothing is kept of servers that have ended."""
    steps = SwapSteps(lambda: 100.0)
    steps.watch(entry(READY, SAVE))
    steps.watch(entry(GONE))
    steps.watch(entry(ConversationsSaved(ALPHA, LaunchId(1))))
    steps.watch(entry(READY, swapped_for_beta(age_s=5.0)))

    assert steps.of_wait(BETA, *FOREVER) == []
    assert sizes([steps])["SwapSteps._begun"] == 0


async def test_a_model_that_is_loaded_again_and_again(opened: Callable[..., Rig]) -> None:
    """Only the last steps are kept."""
    rig = opened()
    for _ in range(KEPT):
        await rig.dispatcher.operator.load(ALPHA)
        await rig.dispatcher.operator.load(BETA)

    assert len(rig.taken_for(ALPHA)) == KEPT


def test_a_model_that_is_stopped_again_and_again_before_it_is_ready() -> None:
    """Only the last steps are kept, so a model that never gets ready takes no more memory from day to day."""
    steps = SwapSteps(lambda: 0.0)
    tracemalloc.start()
    for _ in range(100 * KEPT):
        steps.watch(entry(READY, STOP))
        steps.watch(entry(GONE))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 100 * KEPT * STEP_BYTES / 2
