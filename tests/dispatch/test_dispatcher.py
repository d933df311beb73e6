"""Events in, commands carried out: with a real scheduler, a fake launcher and virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.support.catalogs import model, one_at_a_time, sleeps, with_budget, without
from tests.support.fake_launcher import FakeLauncher
from tests.support.scheduler_driver import upstream_of
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.dispatch.server_tasks import PAUSE_S, STUCK_S, log_transfers
from hotseat.errors import CancelledByOperator, LoadFailed, NotRunning, ShuttingDown, UnknownModel, UnknownTicket
from hotseat.identifiers import ClientId, LaunchId, ModelName
from hotseat.scheduling.events import CatalogChanged, PromptProcessed, Transfer, UpstreamReady
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks
from hotseat.telemetry.logs import taken_apart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hotseat.catalog.catalog import Catalog
    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
CATALOG = one_at_a_time("qwen", "llama")


class FakeWaiter:
    """A waiter that records its calls and may do something during each."""

    def __init__(self, on_outcome: Callable[[], object] = lambda: None) -> None:
        self.outcomes: list[str] = []
        self.error: HotseatError | None = None
        self._on_outcome = on_outcome

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self._record("granted")

    def confirmed(self) -> None:
        self._record("confirmed")

    def refused(self, error: HotseatError) -> None:
        self.error = error
        self._record("refused")

    def cut(self, error: HotseatError) -> None:
        self._record("cut")

    def _record(self, news: str) -> None:
        self.outcomes.append(news)
        self._on_outcome()


class DispatcherRig:
    """A dispatcher and what a test wants to see of it."""

    def __init__(self, catalog: Catalog, launcher: FakeLauncher) -> None:
        self.launcher = launcher
        self.journal = Journal()
        self.dispatcher = Dispatcher(Scheduler(catalog), launcher, self.journal)

    def ask(self, name: ModelName, waiter: FakeWaiter, *, takes_slot: bool = True) -> TicketId:
        return self.dispatcher.ask(name, ClientId("someone"), waiter, takes_slot=takes_slot)

    def phase(self, name: ModelName) -> Phase:
        return self.dispatcher.views.of(name).phase


@asynccontextmanager
async def opened(catalog: Catalog = CATALOG, launcher: FakeLauncher | None = None) -> AsyncIterator[DispatcherRig]:
    rig = DispatcherRig(catalog, launcher or FakeLauncher())
    try:
        yield rig
    finally:
        await rig.dispatcher.shut_down(within=0)


async def everybody_has_acted() -> None:
    """Let all that can go on without time go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_a_request_is_granted_when_its_model_is_ready() -> None:
    """Ask, wait for the load, use, leave."""
    async with opened() as rig:
        waiter = FakeWaiter()
        ticket = rig.ask(QWEN, waiter)
        assert waiter.outcomes == []
        await everybody_has_acted()

        assert waiter.outcomes == ["granted"]
        rig.dispatcher.leave(ticket)
        assert rig.dispatcher.views.of(QWEN).in_flight == 0


@in_virtual_time
async def test_a_request_for_a_ready_model_is_granted_before_ask_returns() -> None:
    """No round through the loop where nothing has to happen."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        waiter = FakeWaiter()
        rig.dispatcher.leave(rig.ask(QWEN, waiter))

        assert waiter.outcomes == ["granted"]


@in_virtual_time
async def test_a_server_gets_a_pause_between_its_last_request_and_its_stop() -> None:
    """A llama-server whose client disconnects during its stop may hang; an unused one is stopped at once."""
    async with opened(one_at_a_time("qwen", "llama", patience=0)) as rig:
        await rig.dispatcher.operator.load(QWEN)
        user = rig.ask(QWEN, FakeWaiter())
        loading = Tasks().start(rig.dispatcher.operator.load(LLAMA), "load")
        await everybody_has_acted()
        began = asyncio.get_running_loop().time()
        rig.dispatcher.leave(user)
        await loading
        behind_a_request = asyncio.get_running_loop().time() - began
        await rig.dispatcher.operator.load(QWEN)
        behind_nobody = asyncio.get_running_loop().time() - began - behind_a_request

        assert behind_a_request == pytest.approx(PAUSE_S)
        assert behind_nobody == 0


@in_virtual_time
async def test_a_server_gets_a_pause_also_where_nobody_waited_when_its_last_request_ended() -> None:
    """The commonest swap: one client ends on a model and asks for the next."""
    async with opened(one_at_a_time("qwen", "llama")) as rig:
        await rig.dispatcher.operator.load(QWEN)
        rig.dispatcher.leave(rig.ask(QWEN, FakeWaiter()))
        began = asyncio.get_running_loop().time()
        await rig.dispatcher.operator.load(LLAMA)

        assert asyncio.get_running_loop().time() - began == pytest.approx(PAUSE_S)


@in_virtual_time
async def test_a_server_that_was_not_used_lately_is_stopped_at_once() -> None:
    """Whatever others are used for meanwhile."""
    two_at_a_time = with_budget(*(model(name, gib=10) for name in ("qwen", "llama", "phi")))
    async with opened(two_at_a_time) as rig:
        for name in (QWEN, LLAMA):
            await rig.dispatcher.operator.load(name)
            rig.dispatcher.leave(rig.ask(name, FakeWaiter()))
        await advance(1)
        in_use = rig.ask(LLAMA, FakeWaiter())
        rig.dispatcher.leave(rig.ask(LLAMA, FakeWaiter()))
        began = asyncio.get_running_loop().time()
        await rig.dispatcher.operator.load(ModelName("phi"))

        assert rig.phase(QWEN) is Phase.COLD
        assert asyncio.get_running_loop().time() == began
        rig.dispatcher.leave(in_use)


@in_virtual_time
async def test_files_are_read_ahead_until_nobody_wants_them() -> None:
    """Also where he is gone before the first of them was touched."""
    async with opened(one_at_a_time("qwen", "llama", patience=0)) as rig:
        await rig.dispatcher.operator.load(QWEN)
        user, other = rig.ask(QWEN, FakeWaiter()), rig.ask(LLAMA, FakeWaiter())
        await everybody_has_acted()
        assert rig.launcher.read_ahead_of == [LLAMA]
        rig.dispatcher.leave(other)
        rig.dispatcher.leave(rig.ask(LLAMA, FakeWaiter()))
        await everybody_has_acted()

        assert rig.launcher.read_ahead_of == []
        rig.dispatcher.leave(user)


@in_virtual_time
async def test_leaving_twice() -> None:
    """A ticket that was given back can be given back again, and frees nothing else."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        ticket = rig.ask(QWEN, FakeWaiter())
        other = rig.ask(QWEN, FakeWaiter())
        rig.dispatcher.leave(ticket)
        rig.dispatcher.leave(ticket)

        assert rig.dispatcher.views.of(QWEN).in_flight == 1
        rig.dispatcher.leave(other)


@in_virtual_time
async def test_an_event_that_occurs_while_another_is_handled() -> None:
    """It is handled next, never nested: all commands of the first event are carried out before the second."""
    async with opened(one_at_a_time(model("qwen", concurrency_limit=1))) as rig:
        tickets: list[TicketId] = []
        seen: list[tuple[str, int]] = []
        second = FakeWaiter(lambda: seen.append(("second", in_flight())))

        def in_flight() -> int:
            return rig.dispatcher.views.of(QWEN).in_flight

        def hang_up() -> None:
            rig.dispatcher.leave(tickets[0])
            seen.append(("first", in_flight()))

        tickets += [rig.ask(QWEN, FakeWaiter(hang_up)), rig.ask(QWEN, second)]
        await everybody_has_acted()

        assert seen == [("first", 1), ("second", 1)]
        rig.dispatcher.leave(tickets[1])


@in_virtual_time
async def test_a_waiter_that_leaves_just_before_its_grant() -> None:
    """A waiter that has just left is not called and holds nothing."""
    async with opened() as rig:
        tickets: list[TicketId] = []
        late = FakeWaiter()
        tickets += [rig.ask(QWEN, FakeWaiter(lambda: rig.dispatcher.leave(tickets[1]))), rig.ask(QWEN, late)]
        await everybody_has_acted()

        assert late.outcomes == []
        assert rig.dispatcher.views.of(QWEN).in_flight == 1
        rig.dispatcher.leave(tickets[0])


@in_virtual_time
async def test_a_waiter_that_leaves_just_before_its_refusal() -> None:
    """A refusal is not delivered either."""
    async with opened(launcher=FakeLauncher(broken=("qwen",))) as rig:
        tickets: list[TicketId] = []
        late = FakeWaiter()
        tickets += [rig.ask(QWEN, FakeWaiter(lambda: rig.dispatcher.leave(tickets[1]))), rig.ask(QWEN, late)]
        await everybody_has_acted()

        assert late.outcomes == []


@in_virtual_time
async def test_a_waiter_that_leaves_just_before_it_is_cut() -> None:
    """A lease that was given back need not be cut."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        tickets: list[TicketId] = []
        hasty, late = FakeWaiter(lambda: [*map(rig.dispatcher.leave, tickets)]), FakeWaiter()
        tickets += [rig.ask(QWEN, hasty), rig.ask(QWEN, late)]
        await rig.dispatcher.operator.unload(QWEN, force=True)

        assert (hasty.outcomes, late.outcomes) == (["granted", "cut"], ["granted"])


@in_virtual_time
async def test_a_refusal_takes_the_ticket_back() -> None:
    """A refused waiter holds nothing; leaving afterwards has no effect."""
    async with opened(launcher=FakeLauncher(broken=("qwen",))) as rig:
        waiter = FakeWaiter()
        ticket = rig.ask(QWEN, waiter)
        await everybody_has_acted()

        assert waiter.outcomes == ["refused"]
        assert isinstance(waiter.error, LoadFailed)
        facts = rig.journal.n
        rig.dispatcher.leave(ticket)
        assert rig.journal.n == facts


@in_virtual_time
async def test_a_load_returns_when_the_model_is_ready() -> None:
    """The model can be used at once after an operator's load."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        asyncio.get_running_loop().call_later(30, rig.launcher.become_ready, "qwen")
        await rig.dispatcher.operator.load(QWEN)

        assert rig.dispatcher.questions.is_running(QWEN)
        assert rig.dispatcher.views.current().now == 30


@in_virtual_time
async def test_a_load_raises_what_kept_it() -> None:
    """The operator gets the server's own words."""
    async with opened(launcher=FakeLauncher(broken=("qwen",))) as rig:
        with pytest.raises(LoadFailed, match="qwen exited with code 1"):
            await rig.dispatcher.operator.load(QWEN)


@in_virtual_time
async def test_a_cancelled_load_gives_its_ticket_back() -> None:
    """An operator who stops waiting leaves the queue."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await rig.dispatcher.operator.load(QWEN)

        assert rig.dispatcher.views.current().queue == ()


@in_virtual_time
async def test_a_load_that_comes_true_as_it_is_cancelled() -> None:
    """There is nothing left to notify, and nothing breaks."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        tasks = Tasks()
        waiting = tasks.start(rig.dispatcher.operator.load(QWEN), "load")
        await everybody_has_acted()
        waiting.cancel()
        rig.dispatcher.tell(UpstreamReady(QWEN, LaunchId(1), upstream_of("qwen")))
        await tasks.aclose()

        assert waiting.cancelled()
        assert rig.dispatcher.questions.is_running(QWEN)


@in_virtual_time
async def test_a_load_that_is_refused_as_it_is_cancelled() -> None:
    """Neither does a refusal that comes too late."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        tasks = Tasks()
        waiting = tasks.start(rig.dispatcher.operator.load(QWEN), "load")
        await everybody_has_acted()
        waiting.cancel()
        rig.dispatcher.tell(CatalogChanged(without(CATALOG, "qwen")))
        await tasks.aclose()

        assert waiting.cancelled()


@in_virtual_time
async def test_an_unload_returns_when_the_process_is_gone() -> None:
    """What was unloaded is cold."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        await rig.dispatcher.operator.unload(QWEN)

        assert rig.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_an_unload_of_what_does_not_run() -> None:
    """There is nothing to stop, and the operator gets an error."""
    async with opened() as rig:
        with pytest.raises(NotRunning, match="qwen is not running"):
            await rig.dispatcher.operator.unload(QWEN)


@in_virtual_time
async def test_an_unload_cuts_who_does_not_finish() -> None:
    """Requests in flight have ten seconds, on the one timer; then they are cut."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        waiter = FakeWaiter()
        ticket = rig.ask(QWEN, waiter)
        asyncio.get_running_loop().call_later(11, rig.dispatcher.leave, ticket)
        await rig.dispatcher.operator.unload(QWEN)

        assert waiter.outcomes == ["granted", "cut"]
        assert rig.dispatcher.views.current().now == 11 + PAUSE_S


@in_virtual_time
async def test_a_cancelled_unload_is_carried_out() -> None:
    """The model is unloaded, although no operator waits."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        ticket = rig.ask(QWEN, FakeWaiter())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await rig.dispatcher.operator.unload(QWEN)
        rig.dispatcher.leave(ticket)
        await advance(PAUSE_S)
        await everybody_has_acted()

        assert rig.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_force_cuts_at_once() -> None:
    """A forced unload does not wait for the timer."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        waiter = FakeWaiter()
        ticket = rig.ask(QWEN, waiter)
        asyncio.get_running_loop().call_soon(rig.dispatcher.leave, ticket)
        await rig.dispatcher.operator.unload(QWEN, force=True)

        assert waiter.outcomes == ["granted", "cut"]
        assert rig.dispatcher.views.current().now == PAUSE_S


@in_virtual_time
async def test_the_timer_rings_at_the_end_of_a_ttl() -> None:
    """An unused model is gone when its ttl is over."""
    async with opened(one_at_a_time(model("qwen", ttl_s=30))) as rig:
        await rig.dispatcher.operator.load(QWEN)
        await advance(29)
        assert rig.phase(QWEN) is Phase.READY
        await advance(2)

        assert rig.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_a_later_timer_replaces_the_earlier_one() -> None:
    """There is one timer: when the scheduler asks for another time, the earlier one does not ring."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        asyncio.get_running_loop().call_later(10, rig.launcher.become_ready, "qwen")
        await rig.dispatcher.operator.load(QWEN)
        tickets = [rig.ask(QWEN, FakeWaiter()), rig.ask(LLAMA, FakeWaiter())]
        rings_at(rig, 50)
        rig.dispatcher.tell(CatalogChanged(one_at_a_time("qwen", "llama", patience=4)))
        rings_at(rig, 90)
        await advance(45)

        assert rig.phase(QWEN) is Phase.READY
        for ticket in tickets:
            rig.dispatcher.leave(ticket)


def rings_at(rig: DispatcherRig, when: float) -> None:
    assert rig.dispatcher._timer is not None
    assert rig.dispatcher._timer.when() == when


@in_virtual_time
async def test_a_crashed_server_is_started_again() -> None:
    """A server that dies is started again for the next request."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        rig.launcher.crash("qwen", "was killed by SIGKILL")
        await everybody_has_acted()
        assert rig.phase(QWEN) is Phase.COLD
        await rig.dispatcher.operator.load(QWEN)

        assert rig.phase(QWEN) is Phase.READY


@in_virtual_time
async def test_a_changed_catalog() -> None:
    """A request for a removed model is refused."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        rig.dispatcher.tell(CatalogChanged(without(CATALOG, "qwen")))
        waiter = FakeWaiter()
        rig.ask(QWEN, waiter)

        assert isinstance(waiter.error, UnknownModel)
        assert rig.dispatcher.catalog.find("qwen") is None


@in_virtual_time
async def test_a_swap_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A swap has about five lines in the log."""
    caplog.set_level(logging.INFO)
    async with opened(launcher=FakeLauncher(broken=("llama",))) as rig:
        await rig.dispatcher.operator.load(QWEN)
        with pytest.raises(LoadFailed):
            await rig.dispatcher.operator.load(LLAMA)

    assert [record.getMessage() for record in caplog.records] == [
        "starting model server model=qwen reason='loaded explicitly (operator or preload)'",
        "model server ready model=qwen took_s=0.00 pid=7001",
        "stopping model server model=qwen reason='unloaded for llama: models run one at a time without `devices`'",
        "model server exited model=qwen exit_status='exited as asked'",
        "starting model server model=llama reason='loaded explicitly (operator or preload)'",
        "model server failed to start model=llama took_s=0.00 failures=1 retry_in_s=0 error='llama exited with code 1'",
    ]


def test_what_was_saved_is_logged_in_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A log of JSON has each figure as a member; nothing is logged if nothing was done."""
    caplog.set_level(logging.INFO)
    log_transfers("saved", QWEN, [Transfer(1000, 4_000_000, 0.25)] * 2, "")
    log_transfers("restored", QWEN, [], "it cannot")
    log_transfers("restored", QWEN, [], "")

    figures = {"model": "qwen", "count": 2, "tokens": 2000, "size_mb": 8.0, "took_s": 0.5}
    assert [record.getMessage() for record in caplog.records] == [
        "conversations saved model=qwen count=2 tokens=2000 size_mb=8.0 took_s=0.50",
        "conversations restored model=qwen count=0 tokens=0 size_mb=0.0 took_s=0.00 problem='it cannot'",
    ]
    assert [*map(taken_apart, caplog.records)] == [
        ("conversations saved", figures),
        ("conversations restored", {**dict.fromkeys(figures, 0), "model": "qwen", "problem": "it cannot"}),
    ]


@in_virtual_time
async def test_a_crash_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """It says how the server ended, how often in a row, and when the next request may start it."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        await advance(8)
        rig.launcher.crash("qwen", "was terminated by SIGSEGV")
        await everybody_has_acted()

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "model server crashed model=qwen ready_s=8.00 failures=1 retry_in_s=0"
            " error='qwen was terminated by SIGSEGV'",
        )
    ]


@in_virtual_time
async def test_shutting_down_while_idle() -> None:
    """Nothing is left when it returns, and no request is accepted any more."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        await rig.dispatcher.shut_down(within=30)
        waiter = FakeWaiter()
        rig.ask(QWEN, waiter)

        assert rig.phase(QWEN) is Phase.COLD
        assert rig.dispatcher.views.current().now == 0
        assert isinstance(waiter.error, ShuttingDown)


@in_virtual_time
async def test_shutting_down_lets_requests_finish() -> None:
    """A request that ends in time is not cut."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        waiter = FakeWaiter()
        asyncio.get_running_loop().call_later(20, rig.dispatcher.leave, rig.ask(QWEN, waiter))
        await rig.dispatcher.shut_down(within=30)

        assert waiter.outcomes == ["granted"]
        assert rig.dispatcher.views.current().now == 20 + PAUSE_S


@in_virtual_time
async def test_shutting_down_cuts_when_the_time_is_up() -> None:
    """After the deadline requests in flight are cut."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        waiter = FakeWaiter()
        asyncio.get_running_loop().call_later(31, rig.dispatcher.leave, rig.ask(QWEN, waiter))
        await rig.dispatcher.shut_down(within=30)

        assert waiter.outcomes == ["granted", "cut"]
        assert rig.dispatcher.views.current().now == 31 + PAUSE_S


@in_virtual_time
async def test_shutting_down_with_somebody_who_never_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """A waiter that was cut and does not leave does not block the shutdown: the guard ends what is left."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        rig.ask(QWEN, FakeWaiter())
        await rig.dispatcher.shut_down(within=30)

        assert [record.getMessage() for record in caplog.records] == [
            "model servers did not exit and are left to the guard"
        ]
        assert rig.dispatcher.views.current().now == 30 + 10 + STUCK_S


@in_virtual_time
async def test_shutting_down_during_a_load() -> None:
    """Waiting requests are refused, and the load is stopped."""
    async with opened(launcher=FakeLauncher(slow=("qwen",))) as rig:
        waiter = FakeWaiter()
        rig.ask(QWEN, waiter)
        await everybody_has_acted()
        await rig.dispatcher.shut_down(within=30)

        assert waiter.outcomes == ["refused"]
        assert rig.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_reads_need_no_slot() -> None:
    """A read passes where a generation waits."""
    async with opened(one_at_a_time(model("qwen", concurrency_limit=1))) as rig:
        await rig.dispatcher.operator.load(QWEN)
        busy, waits, reads = FakeWaiter(), FakeWaiter(), FakeWaiter()
        tickets = [rig.ask(QWEN, busy), rig.ask(QWEN, waits), rig.ask(QWEN, reads, takes_slot=False)]

        assert (waits.outcomes, reads.outcomes) == ([], ["granted"])
        for ticket in tickets:
            rig.dispatcher.leave(ticket)


@in_virtual_time
async def test_ordinary_requests_are_not_in_the_journal() -> None:
    """Ten thousand of them a second leave no trace but a number."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        before = rig.journal.n
        for _ in range(5):
            rig.dispatcher.leave(rig.ask(QWEN, FakeWaiter()))

        assert (rig.journal.n, rig.journal.passed_by) == (before, 5)


@in_virtual_time
async def test_a_prompt_is_an_event_only_where_it_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that keeps conversations learns from long prompts; others, and tickets that are gone, cost no event."""
    async with opened(one_at_a_time(model("qwen", keeps_conversations=True), "llama")) as rig:
        await rig.dispatcher.operator.load(QWEN)
        ticket, before = rig.ask(QWEN, FakeWaiter()), rig.journal.n
        prompt = PromptProcessed(ticket, 1000, 0, 0.5)
        with monkeypatch.context() as watched:
            events: list[object] = []
            watched.setattr(rig.dispatcher, "tell", events.append)
            rig.dispatcher.prompt_processed(prompt)
        rig.dispatcher.prompt_processed(prompt)
        rig.dispatcher.prompt_processed(replace(prompt, computed=1))
        rig.dispatcher.leave(ticket)
        rig.dispatcher.prompt_processed(prompt)
        await rig.dispatcher.operator.load(LLAMA)
        rig.dispatcher.prompt_processed(replace(prompt, ticket=rig.ask(LLAMA, FakeWaiter())))

        assert events == [prompt]
        assert not any(isinstance(entry.event, PromptProcessed) for entry in rig.journal.entries(before))


@in_virtual_time
async def test_a_server_that_tells_its_slots_gets_no_more() -> None:
    """What it says is learned while the first requests are on their way already."""
    launcher = FakeLauncher()
    launcher.slots = {"qwen": 1}
    async with opened(launcher=launcher) as rig:
        await rig.dispatcher.operator.load(QWEN)
        await everybody_has_acted()
        first, second = FakeWaiter(), FakeWaiter()
        ticket = rig.ask(QWEN, first)
        rig.ask(QWEN, second)
        assert (first.outcomes, second.outcomes) == (["granted"], [])
        rig.dispatcher.leave(ticket)

        assert second.outcomes == ["granted"]


# Operators and bugs


@in_virtual_time
async def test_an_unload_that_another_operator_ends() -> None:
    """The operator who waits for it gets an error; the model continues to leave."""
    async with opened() as rig:
        await rig.dispatcher.operator.load(QWEN)
        user = rig.ask(QWEN, FakeWaiter())
        waiting = Tasks().start(rig.dispatcher.operator.unload(QWEN), "unload")
        await everybody_has_acted()
        rig.dispatcher.operator.cancel(max(rig.dispatcher.tickets.in_progress()))
        outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        rig.dispatcher.leave(user)

        assert isinstance(outcome, CancelledByOperator)
        assert rig.phase(QWEN) is Phase.UNLOADING


@in_virtual_time
async def test_a_ticket_that_the_scheduler_does_not_know(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be cancelled and given back, twice as well, and the scheduler hears nothing of its end."""
    async with opened() as rig:
        waiter = FakeWaiter()
        ticket = rig.dispatcher.tickets.enter(waiter)
        rig.dispatcher.operator.cancel(ticket)
        with monkeypatch.context() as patched:
            for name in ("handle", "leave_quietly"):
                patched.setattr(Scheduler, name, lambda *_: 1 // 0)
            for _ in range(2):
                rig.dispatcher.tickets.remove(ticket)

        assert (waiter.outcomes, rig.dispatcher.tickets.in_progress(), caplog.text) == (["cut"], [], "")
        with pytest.raises(UnknownTicket):
            rig.dispatcher.operator.cancel(ticket)


@in_virtual_time
async def test_a_request_that_nobody_can_decide_upon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is answered with a 500, and the next one is served."""
    async with opened() as rig:
        waiter, other = FakeWaiter(), FakeWaiter()
        with monkeypatch.context() as patched:
            patched.setattr(Scheduler, "handle", lambda self, event, now: 1 // 0)
            rig.ask(QWEN, waiter)
        rig.ask(QWEN, other)
        await everybody_has_acted()

        assert (waiter.outcomes, other.outcomes) == (["refused"], ["granted"])
        assert waiter.error is not None
        assert (waiter.error.status, waiter.error.code) == (500, "internal_error")
        assert "ZeroDivisionError" in caplog.text
        assert len(rig.dispatcher.tickets.in_progress()) == 1


# Asleep


SLEEPY = one_at_a_time(model("qwen", sleep=sleeps()), "llama")


@in_virtual_time
async def test_a_model_sleeps_and_wakes() -> None:
    """Its server was put to sleep once and woken once, and never stopped."""
    async with opened(SLEEPY) as rig:
        await rig.dispatcher.operator.load(QWEN)
        await rig.dispatcher.operator.load(LLAMA)
        assert (rig.phase(QWEN), rig.launcher.asleep) == (Phase.ASLEEP, ["qwen"])
        launch = rig.dispatcher.views.of(QWEN).launch
        await rig.dispatcher.operator.load(QWEN)

        assert (rig.phase(QWEN), rig.launcher.asleep) == (Phase.READY, [])
        assert rig.dispatcher.views.of(QWEN).launch == launch


@in_virtual_time
async def test_a_model_that_cannot_sleep_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """Its memory goes to the waiting model, and the log says why it was not put to sleep."""
    launcher = FakeLauncher()
    launcher.cannot_sleep = ("qwen",)
    async with opened(SLEEPY, launcher) as rig:
        await rig.dispatcher.operator.load(QWEN)
        await rig.dispatcher.operator.load(LLAMA)

        assert rig.phase(QWEN) is Phase.COLD
        assert "model server failed to sleep and is stopped model=qwen error='POST /sleep was answered" in caplog.text


@in_virtual_time
async def test_a_model_that_cannot_be_woken_is_started_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Waiting requests only wait longer."""
    launcher = FakeLauncher()
    launcher.dead_asleep = ("qwen",)
    async with opened(SLEEPY, launcher) as rig:
        await rig.dispatcher.operator.load(QWEN)
        await rig.dispatcher.operator.load(LLAMA)
        waiter = FakeWaiter()
        launch = rig.dispatcher.views.of(QWEN).launch
        rig.ask(QWEN, waiter)
        await advance(5)

        assert waiter.outcomes == ["granted"]
        assert rig.dispatcher.views.of(QWEN).launch != launch
        assert "model server failed to wake and is restarted model=qwen error='POST /wake_up was" in caplog.text
