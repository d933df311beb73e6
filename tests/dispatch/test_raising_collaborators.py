"""Any collaborator of the dispatcher may raise in any call: others are not affected, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import model, one_at_a_time, sleeps
from tests.support.fake_launcher import FakeLauncher
from tests.support.raising import Calls
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HotseatError
from hotseat.identifiers import ClientId, ModelName
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from hotseat.identifiers import TicketId, Upstream

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
LAUNCHER = ("start", "watch", "ask_slots", "stop", "put_to_sleep", "wake_up", "read_ahead")
LONGEST_BACKOFF_S = 60


class FakeWaiter:
    """A waiter: uses the model for a second when it is granted, and leaves."""

    def __init__(self, rig: RaisingRig, name: ModelName, calls: Calls) -> None:
        self.outcomes: list[str] = []
        self.has_left = False
        self.granted = calls.around("granted", self._granted)
        self.refused = calls.around("refused", self._refused)
        self.confirmed = calls.around("confirmed", self._refused)
        self.cut = calls.around("cut", self._cut)
        self._rig = rig
        self.ticket: TicketId = rig.dispatcher.ask(name, ClientId("someone"), self)

    def change_its_mind(self) -> None:
        self.has_left = True
        self._rig.dispatcher.leave(self.ticket)

    def _granted(self, upstream: Upstream, reason: str = "") -> None:
        self.outcomes.append("granted")
        asyncio.get_running_loop().call_later(1, lambda: self._rig.dispatcher.leave(self.ticket))

    def _refused(self, error: HotseatError) -> None:
        self.outcomes.append("refused")

    def _cut(self, error: HotseatError) -> None:
        self.outcomes.append("cut")
        asyncio.get_running_loop().call_soon(lambda: self._rig.dispatcher.leave(self.ticket))


class RaisingRig:
    """A dispatcher all of whose collaborators are counted."""

    def __init__(self, calls: Calls) -> None:
        self.calls, self.launcher, journal = calls, FakeLauncher(), Journal()
        for name in LAUNCHER:
            setattr(self.launcher, name, calls.around_coroutine(name, getattr(self.launcher, name)))
        catalog = one_at_a_time(model("qwen", sleep=sleeps()), "llama", patience=0)
        self.dispatcher = Dispatcher(Scheduler(catalog), self.launcher, journal)
        journal.record = calls.around("record", journal.record)  # type: ignore[method-assign]
        traffic, swap_log = self.dispatcher.traffic, self.dispatcher._swap_log
        traffic.note = calls.around("note", traffic.note)  # type: ignore[method-assign]
        traffic.is_watched = True
        swap_log.write = calls.around("write", swap_log.write)  # type: ignore[method-assign]
        self.waiters: list[FakeWaiter] = []
        self.tasks = Tasks()

    def ask(self, name: ModelName) -> FakeWaiter:
        self.waiters.append(FakeWaiter(self, name, self.calls))
        return self.waiters[-1]

    def operate(self, call: Coroutine[Any, Any, None]) -> None:
        async def answered() -> None:
            with suppress(HotseatError):
                await call

        self.tasks.start(answered(), "operate")


async def play(rig: RaisingRig) -> None:
    """Loads, swaps, sleep, waking, a crash, a failed start, an unload that cuts, and cancelled requests."""
    dispatcher, launcher = rig.dispatcher, rig.launcher
    rig.operate(dispatcher.operator.load(QWEN))
    await advance(5)
    rig.ask(QWEN)
    rig.ask(LLAMA)
    await advance(5)
    rig.ask(QWEN)
    rig.ask(LLAMA).change_its_mind()
    await advance(5)
    rig.ask(QWEN)
    rig.operate(dispatcher.operator.unload(QWEN, force=True))
    await advance(5)
    launcher.broken = ("llama",)
    rig.ask(LLAMA)
    await advance(5)
    launcher.broken = ()
    rig.ask(QWEN)
    await advance(5)
    if "qwen" in launcher.alive:
        launcher.crash("qwen", "was killed by SIGKILL")


async def is_served(rig: RaisingRig, name: ModelName) -> bool:
    waiter = rig.ask(name)
    await advance(10)
    return waiter.outcomes == ["granted"]


def left_behind(rig: RaisingRig) -> Iterator[str]:
    """What has no owner when everybody has come to rest."""
    if [*rig.tasks]:
        yield "an operator was never answered"
    if unanswered := [number for number, waiter in enumerate(rig.waiters) if not (waiter.outcomes or waiter.has_left)]:
        yield f"waiters {unanswered} were never answered"
    view = rig.dispatcher.views.of_all()
    if view.queue or rig.dispatcher.tickets.in_progress():
        yield "a ticket was left"
    for each in view.models:
        if each.in_flight:
            yield f"{each.name} has a lease that nobody gives back"
        if each.phase not in (Phase.COLD, Phase.READY, Phase.ASLEEP):
            yield f"{each.name} is {each.phase} for ever"
        if (each.name in rig.launcher.alive) != each.phase.takes_memory:
            yield f"{each.name} is {each.phase}, but alive are {rig.launcher.alive}"


def problems_with(calls: Calls) -> list[str]:
    """Play, let everybody come to rest, and say what is wrong."""
    problems: list[str] = []

    @in_virtual_time
    async def run() -> None:
        rig = RaisingRig(calls)
        await play(rig)
        await advance(LONGEST_BACKOFF_S + 10)
        calls.are_counted = False
        problems.extend(left_behind(rig))
        problems.extend([f"{name} is not served again" for name in (LLAMA, QWEN) if not await is_served(rig, name)])
        await rig.tasks.aclose()
        await rig.dispatcher.shut_down(within=5)
        problems.extend(f"the server of {name} is left" for name in rig.launcher.alive)

    run()
    return problems


def calls_of_a_clean_run() -> list[str]:
    calls = Calls()
    assert problems_with(calls) == []
    return calls.made


def test_a_clean_run_calls_every_collaborator() -> None:
    """What is never called would never raise."""
    assert {*LAUNCHER, "granted", "refused", "cut", "record", "note", "write"} <= set(calls_of_a_clean_run())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_collaborator_that_raises(when: str) -> None:
    """At each of its calls in turn: every ticket is answered, every model has an owner, and the next is served."""
    made = calls_of_a_clean_run()
    found = {f"{name}, call {number}": problems_with(Calls(number, when)) for number, name in enumerate(made)}

    assert {call: problems for call, problems in found.items() if problems} == {}
