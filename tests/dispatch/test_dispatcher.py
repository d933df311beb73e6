"""Events in, commands carried out: with a real scheduler, a fake launcher and virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.catalogs import model, one_at_a_time, sleeps, with_budget, without
from tests.support.fake_launcher import FakeLauncher
from tests.support.scheduler_driver import upstream_of
from tests.support.virtual_time import advance, in_virtual_time

from hotseat.dispatch.dispatcher import STUCK_S, Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.dispatch.server_tasks import BREATH_S
from hotseat.errors import CancelledByOperator, LoadFailed, NotRunning, ShuttingDown, UnknownModel
from hotseat.identifiers import ClientId, LaunchId, ModelName
from hotseat.scheduling.events import UpstreamReady
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hotseat.catalog.catalog import Catalog
    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream

QWEN, LLAMA = ModelName("qwen"), ModelName("llama")
RIG = one_at_a_time("qwen", "llama")


class Guest:
    """A visitor that records its calls and may do something during each."""

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


class DecisionContext:
    """A dispatcher and what a test wants to see of it."""

    def __init__(self, catalog: Catalog, launcher: FakeLauncher) -> None:
        self.launcher = launcher
        self.journal = Journal()
        self.dispatcher = Dispatcher(Scheduler(catalog), launcher, self.journal)

    def ask(self, name: ModelName, guest: Guest, *, takes_slot: bool = True) -> TicketId:
        return self.dispatcher.ask(name, ClientId("someone"), guest, takes_slot=takes_slot)

    def phase(self, name: ModelName) -> Phase:
        return self.dispatcher.view().model(name).phase


@asynccontextmanager
async def a_context(catalog: Catalog = RIG, launcher: FakeLauncher | None = None) -> AsyncIterator[DecisionContext]:
    bench = DecisionContext(catalog, launcher or FakeLauncher())
    try:
        yield bench
    finally:
        await bench.dispatcher.shut_down(within=0)


async def everybody_has_acted() -> None:
    """Let all that can go on without time go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_a_request_is_granted_when_its_model_is_ready() -> None:
    """Ask, wait for the load, use, leave."""
    async with a_context() as bench:
        guest = Guest()
        ticket = bench.ask(QWEN, guest)
        assert guest.outcomes == []
        await everybody_has_acted()

        assert guest.outcomes == ["granted"]
        bench.dispatcher.leave(ticket)
        assert bench.dispatcher.view().model(QWEN).in_flight == 0


@in_virtual_time
async def test_a_request_for_a_ready_model_is_granted_before_ask_returns() -> None:
    """No round through the loop where nothing has to happen."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        guest = Guest()
        bench.dispatcher.leave(bench.ask(QWEN, guest))

        assert guest.outcomes == ["granted"]


@in_virtual_time
async def test_a_server_may_breathe_between_its_last_request_and_its_stop() -> None:
    """A llama-server whose client disconnects during its stop may hang; an unused one is stopped at once."""
    async with a_context(one_at_a_time("qwen", "llama", patience=0)) as bench:
        await bench.dispatcher.load(QWEN)
        user = bench.ask(QWEN, Guest())
        loading = Tasks().start(bench.dispatcher.load(LLAMA), "load")
        await everybody_has_acted()
        began = asyncio.get_running_loop().time()
        bench.dispatcher.leave(user)
        await loading
        behind_a_request = asyncio.get_running_loop().time() - began
        await bench.dispatcher.load(QWEN)
        behind_nobody = asyncio.get_running_loop().time() - began - behind_a_request

        assert behind_a_request == pytest.approx(BREATH_S)
        assert behind_nobody == 0


@in_virtual_time
async def test_a_server_may_breathe_also_where_nobody_waited_when_its_last_request_ended() -> None:
    """The commonest swap: one client ends on a model and asks for the next."""
    async with a_context(one_at_a_time("qwen", "llama")) as bench:
        await bench.dispatcher.load(QWEN)
        bench.dispatcher.leave(bench.ask(QWEN, Guest()))
        began = asyncio.get_running_loop().time()
        await bench.dispatcher.load(LLAMA)

        assert asyncio.get_running_loop().time() - began == pytest.approx(BREATH_S)


@in_virtual_time
async def test_a_server_that_was_not_used_lately_is_stopped_at_once() -> None:
    """Whatever others are used for meanwhile."""
    two_at_a_time = with_budget(*(model(name, gib=10) for name in ("qwen", "llama", "phi")))
    async with a_context(two_at_a_time) as bench:
        for name in (QWEN, LLAMA):
            await bench.dispatcher.load(name)
            bench.dispatcher.leave(bench.ask(name, Guest()))
        await advance(1)
        in_use = bench.ask(LLAMA, Guest())
        bench.dispatcher.leave(bench.ask(LLAMA, Guest()))
        began = asyncio.get_running_loop().time()
        await bench.dispatcher.load(ModelName("phi"))

        assert bench.phase(QWEN) is Phase.COLD
        assert asyncio.get_running_loop().time() == began
        bench.dispatcher.leave(in_use)


@in_virtual_time
async def test_files_are_read_ahead_until_nobody_wants_them() -> None:
    """Also where he is gone before the first of them was touched."""
    async with a_context(one_at_a_time("qwen", "llama", patience=0)) as bench:
        await bench.dispatcher.load(QWEN)
        user, other = bench.ask(QWEN, Guest()), bench.ask(LLAMA, Guest())
        await everybody_has_acted()
        assert bench.launcher.read_ahead_of == [LLAMA]
        bench.dispatcher.leave(other)
        bench.dispatcher.leave(bench.ask(LLAMA, Guest()))
        await everybody_has_acted()

        assert bench.launcher.read_ahead_of == []
        bench.dispatcher.leave(user)


@in_virtual_time
async def test_leaving_twice() -> None:
    """A ticket that was given back can be given back again, and frees nothing else."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        ticket = bench.ask(QWEN, Guest())
        other = bench.ask(QWEN, Guest())
        bench.dispatcher.leave(ticket)
        bench.dispatcher.leave(ticket)

        assert bench.dispatcher.view().model(QWEN).in_flight == 1
        bench.dispatcher.leave(other)


@in_virtual_time
async def test_an_event_that_occurs_while_another_is_handled() -> None:
    """It is handled next, never nested: all commands of the first event are carried out before the second."""
    async with a_context(one_at_a_time(model("qwen", concurrency_limit=1))) as bench:
        tickets: list[TicketId] = []
        seen: list[tuple[str, int]] = []
        second = Guest(lambda: seen.append(("second", in_flight())))

        def in_flight() -> int:
            return bench.dispatcher.view().model(QWEN).in_flight

        def hang_up() -> None:
            bench.dispatcher.leave(tickets[0])
            seen.append(("first", in_flight()))

        tickets += [bench.ask(QWEN, Guest(hang_up)), bench.ask(QWEN, second)]
        await everybody_has_acted()

        assert seen == [("first", 1), ("second", 1)]
        bench.dispatcher.leave(tickets[1])


@in_virtual_time
async def test_a_guest_who_leaves_just_before_its_grant() -> None:
    """A visitor that has just left is not called and holds nothing."""
    async with a_context() as bench:
        tickets: list[TicketId] = []
        late = Guest()
        tickets += [bench.ask(QWEN, Guest(lambda: bench.dispatcher.leave(tickets[1]))), bench.ask(QWEN, late)]
        await everybody_has_acted()

        assert late.outcomes == []
        assert bench.dispatcher.view().model(QWEN).in_flight == 1
        bench.dispatcher.leave(tickets[0])


@in_virtual_time
async def test_a_guest_who_leaves_just_before_its_refusal() -> None:
    """A refusal is not delivered either."""
    async with a_context(launcher=FakeLauncher(broken=("qwen",))) as bench:
        tickets: list[TicketId] = []
        late = Guest()
        tickets += [bench.ask(QWEN, Guest(lambda: bench.dispatcher.leave(tickets[1]))), bench.ask(QWEN, late)]
        await everybody_has_acted()

        assert late.outcomes == []


@in_virtual_time
async def test_a_guest_who_leaves_just_before_it_is_cut() -> None:
    """A lease that was given back need not be cut."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        tickets: list[TicketId] = []
        hasty, late = Guest(lambda: [*map(bench.dispatcher.leave, tickets)]), Guest()
        tickets += [bench.ask(QWEN, hasty), bench.ask(QWEN, late)]
        await bench.dispatcher.unload(QWEN, force=True)

        assert (hasty.outcomes, late.outcomes) == (["granted", "cut"], ["granted"])


@in_virtual_time
async def test_a_refusal_takes_the_ticket_back() -> None:
    """A refused visitor holds nothing; leaving afterwards has no effect."""
    async with a_context(launcher=FakeLauncher(broken=("qwen",))) as bench:
        guest = Guest()
        ticket = bench.ask(QWEN, guest)
        await everybody_has_acted()

        assert guest.outcomes == ["refused"]
        assert isinstance(guest.error, LoadFailed)
        facts = bench.journal.n
        bench.dispatcher.leave(ticket)
        assert bench.journal.n == facts


@in_virtual_time
async def test_a_load_returns_when_the_model_is_ready() -> None:
    """The model can be used at once after an operator's load."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        asyncio.get_running_loop().call_later(30, bench.launcher.become_ready, "qwen")
        await bench.dispatcher.load(QWEN)

        assert bench.dispatcher.is_running(QWEN)
        assert bench.dispatcher.view().now == 30


@in_virtual_time
async def test_a_load_raises_what_kept_it() -> None:
    """The operator gets the server's own words."""
    async with a_context(launcher=FakeLauncher(broken=("qwen",))) as bench:
        with pytest.raises(LoadFailed, match="qwen exited with code 1"):
            await bench.dispatcher.load(QWEN)


@in_virtual_time
async def test_a_cancelled_load_gives_its_ticket_back() -> None:
    """An operator who stops waiting leaves the queue."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await bench.dispatcher.load(QWEN)

        assert bench.dispatcher.view().queue == ()


@in_virtual_time
async def test_a_load_that_comes_true_as_it_is_cancelled() -> None:
    """There is nothing left to notify, and nothing breaks."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        tasks = Tasks()
        waiting = tasks.start(bench.dispatcher.load(QWEN), "load")
        await everybody_has_acted()
        waiting.cancel()
        bench.dispatcher.tell(UpstreamReady(QWEN, LaunchId(1), upstream_of("qwen")))
        await tasks.aclose()

        assert waiting.cancelled()
        assert bench.dispatcher.is_running(QWEN)


@in_virtual_time
async def test_a_load_that_is_refused_as_it_is_cancelled() -> None:
    """Neither does a refusal that comes too late."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        tasks = Tasks()
        waiting = tasks.start(bench.dispatcher.load(QWEN), "load")
        await everybody_has_acted()
        waiting.cancel()
        bench.dispatcher.change_catalog(without(RIG, "qwen"))
        await tasks.aclose()

        assert waiting.cancelled()


@in_virtual_time
async def test_an_unload_returns_when_the_process_is_gone() -> None:
    """What was unloaded is cold."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        await bench.dispatcher.unload(QWEN)

        assert bench.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_an_unload_of_what_does_not_run() -> None:
    """There is nothing to stop, and the operator gets an error."""
    async with a_context() as bench:
        with pytest.raises(NotRunning, match="qwen is not running"):
            await bench.dispatcher.unload(QWEN)


@in_virtual_time
async def test_an_unload_cuts_who_does_not_finish() -> None:
    """Requests in flight have ten seconds, on the one timer; then they are cut."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        guest = Guest()
        ticket = bench.ask(QWEN, guest)
        asyncio.get_running_loop().call_later(11, bench.dispatcher.leave, ticket)
        await bench.dispatcher.unload(QWEN)

        assert guest.outcomes == ["granted", "cut"]
        assert bench.dispatcher.view().now == 11 + BREATH_S


@in_virtual_time
async def test_a_cancelled_unload_is_carried_out() -> None:
    """The model is unloaded, although no operator waits."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        ticket = bench.ask(QWEN, Guest())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await bench.dispatcher.unload(QWEN)
        bench.dispatcher.leave(ticket)
        await advance(BREATH_S)
        await everybody_has_acted()

        assert bench.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_force_cuts_at_once() -> None:
    """A forced unload does not wait for the timer."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        guest = Guest()
        ticket = bench.ask(QWEN, guest)
        asyncio.get_running_loop().call_soon(bench.dispatcher.leave, ticket)
        await bench.dispatcher.unload(QWEN, force=True)

        assert guest.outcomes == ["granted", "cut"]
        assert bench.dispatcher.view().now == BREATH_S


@in_virtual_time
async def test_the_timer_rings_at_the_end_of_a_ttl() -> None:
    """An unused model is gone when its ttl is over."""
    async with a_context(one_at_a_time(model("qwen", ttl_s=30))) as bench:
        await bench.dispatcher.load(QWEN)
        await advance(29)
        assert bench.phase(QWEN) is Phase.READY
        await advance(2)

        assert bench.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_a_later_wish_replaces_the_timer() -> None:
    """There is one timer: when the scheduler asks for another time, the earlier one does not ring."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        asyncio.get_running_loop().call_later(10, bench.launcher.become_ready, "qwen")
        await bench.dispatcher.load(QWEN)
        tickets = [bench.ask(QWEN, Guest()), bench.ask(LLAMA, Guest())]
        rings_at(bench, 50)
        bench.dispatcher.change_catalog(one_at_a_time("qwen", "llama", patience=4))
        rings_at(bench, 90)
        await advance(45)

        assert bench.phase(QWEN) is Phase.READY
        for ticket in tickets:
            bench.dispatcher.leave(ticket)


def rings_at(bench: DecisionContext, when: float) -> None:
    assert bench.dispatcher._timer is not None
    assert bench.dispatcher._timer.when() == when


@in_virtual_time
async def test_a_crashed_server_is_started_again() -> None:
    """A server that dies is started again for the next request."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        bench.launcher.crash("qwen", "was killed by SIGKILL")
        await everybody_has_acted()
        assert bench.phase(QWEN) is Phase.COLD
        await bench.dispatcher.load(QWEN)

        assert bench.phase(QWEN) is Phase.READY


@in_virtual_time
async def test_a_changed_catalog() -> None:
    """What changed is reported, and acted upon."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        change = bench.dispatcher.change_catalog(without(RIG, "qwen"))
        guest = Guest()
        bench.ask(QWEN, guest)

        assert change.removed == ("qwen",)
        assert isinstance(guest.error, UnknownModel)
        assert bench.dispatcher.catalog.find("qwen") is None


@in_virtual_time
async def test_a_swap_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A swap has about five lines in the log."""
    caplog.set_level(logging.INFO)
    async with a_context(launcher=FakeLauncher(broken=("llama",))) as bench:
        await bench.dispatcher.load(QWEN)
        with pytest.raises(LoadFailed):
            await bench.dispatcher.load(LLAMA)

    assert [record.getMessage() for record in caplog.records] == [
        "starting upstream model=qwen reason='loaded explicitly (operator or preload)'",
        "upstream ready model=qwen took_s=0.00 pid=7001",
        "stopping upstream model=qwen reason='unloaded to free memory for llama'",
        "upstream exited model=qwen exit_status='exited as asked'",
        "starting upstream model=llama reason='loaded explicitly (operator or preload)'",
        "upstream failed to start model=llama took_s=0.00 error='llama exited with code 1'",
    ]


@in_virtual_time
async def test_shutting_down_while_idle() -> None:
    """Nothing is left when it returns, and no request is accepted any more."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        await bench.dispatcher.shut_down(within=30)
        guest = Guest()
        bench.ask(QWEN, guest)

        assert bench.phase(QWEN) is Phase.COLD
        assert bench.dispatcher.view().now == 0
        assert isinstance(guest.error, ShuttingDown)


@in_virtual_time
async def test_shutting_down_lets_requests_finish() -> None:
    """A request that ends in time is not cut."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        guest = Guest()
        asyncio.get_running_loop().call_later(20, bench.dispatcher.leave, bench.ask(QWEN, guest))
        await bench.dispatcher.shut_down(within=30)

        assert guest.outcomes == ["granted"]
        assert bench.dispatcher.view().now == 20 + BREATH_S


@in_virtual_time
async def test_shutting_down_cuts_when_the_time_is_up() -> None:
    """After the deadline requests in flight are cut."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        guest = Guest()
        asyncio.get_running_loop().call_later(31, bench.dispatcher.leave, bench.ask(QWEN, guest))
        await bench.dispatcher.shut_down(within=30)

        assert guest.outcomes == ["granted", "cut"]
        assert bench.dispatcher.view().now == 31 + BREATH_S


@in_virtual_time
async def test_shutting_down_with_somebody_who_never_leaves(caplog: pytest.LogCaptureFixture) -> None:
    """A visitor that was cut and does not leave does not block the shutdown: the guard ends what is left."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        bench.ask(QWEN, Guest())
        await bench.dispatcher.shut_down(within=30)

        assert [record.getMessage() for record in caplog.records] == [
            "upstreams did not exit and are left to the guard"
        ]
        assert bench.dispatcher.view().now == 30 + 10 + STUCK_S


@in_virtual_time
async def test_shutting_down_during_a_load() -> None:
    """Waiting requests are refused, and the load is stopped."""
    async with a_context(launcher=FakeLauncher(slow=("qwen",))) as bench:
        guest = Guest()
        bench.ask(QWEN, guest)
        await everybody_has_acted()
        await bench.dispatcher.shut_down(within=30)

        assert guest.outcomes == ["refused"]
        assert bench.phase(QWEN) is Phase.COLD


@in_virtual_time
async def test_reads_need_no_slot() -> None:
    """A read passes where a generation waits."""
    async with a_context(one_at_a_time(model("qwen", concurrency_limit=1))) as bench:
        await bench.dispatcher.load(QWEN)
        busy, waits, reads = Guest(), Guest(), Guest()
        tickets = [bench.ask(QWEN, busy), bench.ask(QWEN, waits), bench.ask(QWEN, reads, takes_slot=False)]

        assert (waits.outcomes, reads.outcomes) == ([], ["granted"])
        for ticket in tickets:
            bench.dispatcher.leave(ticket)


@in_virtual_time
async def test_ordinary_requests_are_not_in_the_journal() -> None:
    """Ten thousand of them a second leave no trace but a number."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        before = bench.journal.n
        for _ in range(5):
            bench.dispatcher.leave(bench.ask(QWEN, Guest()))

        assert (bench.journal.n, bench.journal.passed_by) == (before, 5)


@in_virtual_time
async def test_a_server_that_tells_its_slots_gets_no_more() -> None:
    """What it says is learned while the first requests are on their way already."""
    launcher = FakeLauncher()
    launcher.slots = {"qwen": 1}
    async with a_context(launcher=launcher) as bench:
        await bench.dispatcher.load(QWEN)
        await everybody_has_acted()
        first, second = Guest(), Guest()
        ticket = bench.ask(QWEN, first)
        bench.ask(QWEN, second)
        assert (first.outcomes, second.outcomes) == (["granted"], [])
        bench.dispatcher.leave(ticket)

        assert second.outcomes == ["granted"]


# Operators and bugs


@in_virtual_time
async def test_an_unload_that_another_operator_ends() -> None:
    """The operator who waits for it gets an error; the model continues to leave."""
    async with a_context() as bench:
        await bench.dispatcher.load(QWEN)
        user = bench.ask(QWEN, Guest())
        waiting = Tasks().start(bench.dispatcher.unload(QWEN), "unload")
        await everybody_has_acted()
        bench.dispatcher.cancel_request(max(bench.dispatcher._waiters))
        outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        bench.dispatcher.leave(user)

        assert isinstance(outcome, CancelledByOperator)
        assert bench.phase(QWEN) is Phase.UNLOADING


@in_virtual_time
async def test_a_request_that_nobody_can_decide_upon(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is answered with a 500, and the next one is served."""
    async with a_context() as bench:
        guest, other = Guest(), Guest()
        with monkeypatch.context() as patched:
            patched.setattr(Scheduler, "handle", lambda self, event, now: 1 // 0)
            bench.ask(QWEN, guest)
        bench.ask(QWEN, other)
        await everybody_has_acted()

        assert (guest.outcomes, other.outcomes) == (["refused"], ["granted"])
        assert guest.error is not None
        assert (guest.error.status, guest.error.code) == (500, "internal_error")
        assert "ZeroDivisionError" in caplog.text
        assert len(bench.dispatcher._waiters) == 1


# Asleep


SLEEPY = one_at_a_time(model("qwen", sleep=sleeps()), "llama")


@in_virtual_time
async def test_a_model_sleeps_and_wakes() -> None:
    """The puppet was put to sleep once and woken once, and never stopped."""
    async with a_context(SLEEPY) as bench:
        await bench.dispatcher.load(QWEN)
        await bench.dispatcher.load(LLAMA)
        assert (bench.phase(QWEN), bench.launcher.asleep) == (Phase.ASLEEP, ["qwen"])
        launch = bench.dispatcher.view().model(QWEN).launch
        await bench.dispatcher.load(QWEN)

        assert (bench.phase(QWEN), bench.launcher.asleep) == (Phase.READY, [])
        assert bench.dispatcher.view().model(QWEN).launch == launch


@in_virtual_time
async def test_a_model_that_cannot_sleep_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """Its memory goes to the waiting model, and the log says why it was not put to sleep."""
    launcher = FakeLauncher()
    launcher.cannot_sleep = ("qwen",)
    async with a_context(SLEEPY, launcher) as bench:
        await bench.dispatcher.load(QWEN)
        await bench.dispatcher.load(LLAMA)

        assert bench.phase(QWEN) is Phase.COLD
        assert "upstream failed to sleep and is stopped model=qwen error='POST /sleep was answered" in caplog.text


@in_virtual_time
async def test_a_model_that_cannot_be_woken_is_started_anew(caplog: pytest.LogCaptureFixture) -> None:
    """Waiting requests only wait longer."""
    launcher = FakeLauncher()
    launcher.dead_asleep = ("qwen",)
    async with a_context(SLEEPY, launcher) as bench:
        await bench.dispatcher.load(QWEN)
        await bench.dispatcher.load(LLAMA)
        guest = Guest()
        launch = bench.dispatcher.view().model(QWEN).launch
        bench.ask(QWEN, guest)
        await advance(5)

        assert guest.outcomes == ["granted"]
        assert bench.dispatcher.view().model(QWEN).launch != launch
        assert "upstream failed to wake and is restarted model=qwen error='POST /wake_up was" in caplog.text
