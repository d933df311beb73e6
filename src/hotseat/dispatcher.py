"""The only place where events meet commands and commands meet the world.

`tell` is a plain synchronous method: under asyncio nothing can run in between, so there is no queue and no lock.
A fact that comes up while commands are being carried out (a client whose connection breaks as it is granted) is
told next, never in the same breath. One timer, because the scheduler asks for one time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, assert_never, cast

from hotseat.catalog.catalog import CatalogChange, compare
from hotseat.errors import Dismissed, UnknownTicket, Unloaded
from hotseat.scheduling.commands import (
    Command,
    Confirm,
    Cut,
    Grant,
    PutToSleep,
    ReadAhead,
    Refuse,
    ReportSwap,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeAt,
    WakeUp,
)
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    Event,
    LoadRequested,
    RequestArrived,
    RequestLeft,
    ShutdownRequested,
    SleepFailed,
    SlotsLearned,
    UnloadRequested,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    WakeFailed,
)
from hotseat.swaps import SwapDiary
from hotseat.tasks import Tasks
from hotseat.terms import ClientId, TicketId
from hotseat.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.catalog.catalog import Catalog
    from hotseat.errors import HotseatError
    from hotseat.journal import Journal
    from hotseat.scheduling.scheduler import Scheduler
    from hotseat.scheduling.view import View
    from hotseat.terms import Instant, ModelName, Seconds, Upstream

log = logging.getLogger(__name__)

OPERATOR = ClientId("operator")

STUCK_S: Seconds = 5.0
"""After its own time to unload, a server that is still there is nothing we can wait for."""
BREATH_S: Seconds = 0.02
"""A server is told to stop so long after its last request has ended, at least: a llama-server that hears of both at
once may not end before it is killed."""


class Hands(Protocol):
    """What starts and stops servers. Each coroutine returns the next fact."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed: ...
    async def watch(self, ready: UpstreamReady) -> UpstreamExited: ...

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None: ...

    async def stop(self, command: StopUpstream) -> None: ...

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        """None: it was told to stop meanwhile, or ended, which is told elsewhere."""

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """None: it was told to stop meanwhile, or ended, which is told elsewhere."""

    async def read_ahead(self, command: ReadAhead) -> None:
        """Until all is read, the model starts, or whoever waits for this is cancelled."""


class Visitor(Protocol):
    """Who holds a ticket. Called from `tell`, so it returns at once and never raises."""

    def granted(self, upstream: Upstream, because: str = "") -> None:
        """The lease is yours until you `leave`; `because` says what it took, unless it was granted at once."""

    def confirmed(self) -> None:
        """What an operator asked for has come true; the ticket is gone."""

    def refused(self, error: HotseatError) -> None:
        """No lease; the ticket is gone."""

    def cut(self, error: HotseatError) -> None:
        """End your exchange visibly now, then `leave`."""


class Dispatcher:
    def __init__(
        self,
        scheduler: Scheduler,
        hands: Hands,
        journal: Journal,
        clock: Callable[[], Instant] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self.catalog: Catalog = scheduler.catalog
        """What may run at present; looked up for every request."""
        self._hands = hands
        self._journal = journal
        self.traffic = Traffic()
        """Who watches it sees every request, which is why the short road is closed meanwhile."""
        self._clock = clock or asyncio.get_running_loop().time
        self._numbers = cast("Iterator[TicketId]", itertools.count(1))
        self._visitors: dict[TicketId, Visitor] = {}
        self._untold: deque[Event] = deque()
        self._telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._read_ahead_of: dict[ModelName, asyncio.Task[None]] = {}
        """Whose files were last read ahead, perhaps to the end."""
        self._diary = SwapDiary()
        self._tasks = Tasks()

    # What others ask of it

    def view(self) -> View:
        return self._scheduler.view(self._clock())

    def view_without_cold(self) -> View:
        """For whoever looks often at a house with many models."""
        return self._scheduler.view_without_cold(self._clock())

    def why(self, model: ModelName) -> str:
        """One sentence: why those who wait for the model wait."""
        return self._scheduler.why(model, self._clock())

    def crowd(self, model: ModelName) -> int:
        """How many requests use or want the model, if some of them have to wait; else 0."""
        return self._scheduler.crowd(model)

    def is_running(self, model: ModelName) -> bool:
        return self.view().model(model).is_running

    def ask(self, model: ModelName, client: ClientId, visitor: Visitor, *, takes_slot: bool = True) -> TicketId:
        """Ask for a lease; the visitor hears of it, perhaps before this returns."""
        ticket = next(self._numbers)
        self._visitors[ticket] = visitor
        upstream = None
        if not (self._telling or self.traffic.is_watched):
            upstream = self._scheduler.lease_at_once(ticket, model, client, takes_slot, self._clock())
        if upstream is None:
            self.tell(RequestArrived(ticket, model, client, takes_slot))
        else:
            self._journal.passed_by += 1
            visitor.granted(upstream)
        return ticket

    def leave(self, ticket: TicketId) -> None:
        """Give the lease back or leave the line. Safe to call twice."""
        if self._visitors.pop(ticket, None) is None:
            return
        commands = None
        if not (self._telling or self.traffic.is_watched):
            commands = self._scheduler.leave_quietly(ticket, self._clock())
        if commands is None:
            self.tell(RequestLeft(ticket))
        else:
            for command in commands:
                self._carry_out(command)

    def dismiss(self, ticket: TicketId) -> None:
        """End a request on an operator's behalf: who waits is refused, who is served is cut visibly."""
        visitor = self._visitors.get(ticket)
        if visitor is None:
            raise UnknownTicket(f"ticket {ticket} is not here any more; GET /hotseat/requests lists those that are")
        if any(waiting.ticket == ticket for waiting in self.view().line):
            visitor.refused(Dismissed("an operator ended this request while it waited"))
        else:
            visitor.cut(Dismissed("an operator ended this request"))

    async def load(self, model: ModelName, client: ClientId = OPERATOR) -> None:
        """Return when the model is ready; raise what kept it from that."""
        with self._operator() as (ticket, answer):
            self.tell(LoadRequested(ticket, model, client))
            await answer

    async def unload(self, model: ModelName, *, force: bool = False) -> None:
        """Return when the model's process is gone; NotRunning where there was none."""
        with self._operator() as (ticket, answer):
            self.tell(UnloadRequested(ticket, model, force))
            await answer

    def change_catalog(self, catalog: Catalog) -> CatalogChange:
        change = compare(self.catalog, catalog)
        self.tell(CatalogChanged(catalog))
        return change

    async def shut_down(self, within: Seconds) -> None:
        """Refuse newcomers, let leases finish for `within` seconds, then cut; return when no upstream is left."""
        self.tell(ShutdownRequested())
        if not await self._empty_within(within):
            self.tell(ShutdownRequested(force=True))
            longest = max((spec.unload_timeout_s for spec in self.catalog.models.values()), default=0.0)
            if not await self._empty_within(longest + STUCK_S):
                log.error("upstreams did not end and are left to the guard")
        self._set_timer(None)
        await self._tasks.aclose()

    # Facts meet decisions

    def tell(self, event: Event) -> None:
        self._untold.append(event)
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._decide(self._untold.popleft())
        finally:
            self._telling = False

    def _decide(self, event: Event) -> None:
        now = self._clock()
        commands = self._scheduler.handle(event, now)
        self.catalog = self._scheduler.catalog
        self._journal.record(event, commands)
        if self.traffic.is_watched:
            self.traffic.note(event, commands, now)
        for command in commands:
            self._carry_out(command)

    # Decisions meet the world

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant(ticket=ticket, upstream=upstream, because=because):
                if visitor := self._visitors.get(ticket):
                    visitor.granted(upstream, because)
            case Confirm(ticket=ticket):
                if visitor := self._visitors.pop(ticket, None):
                    visitor.confirmed()
            case Refuse(ticket=ticket, error=error):
                if visitor := self._visitors.pop(ticket, None):
                    visitor.refused(error)
            case Cut(ticket=ticket, because=because, error=error):
                if visitor := self._visitors.get(ticket):
                    visitor.cut(error or Unloaded(because))
            case StartUpstream(model=model, because=because):
                log.info("starting upstream model=%s because=%r", model, because)
                self._tasks.start(self._run(command), f"run {model}")
            case StopUpstream(model=model, because=because):
                log.info("stopping upstream model=%s because=%r", model, because)
                self._tasks.start(self._stop(command), f"stop {model}")
            case PutToSleep(model=model, level=level, because=because):
                log.info("putting upstream to sleep model=%s level=%s because=%r", model, level.name, because)
                self._tasks.start(self._put_to_sleep(command), f"put {model} to sleep")
            case WakeUp(model=model, level=level, because=because):
                log.info("waking upstream model=%s level=%s because=%r", model, level.name, because)
                self._tasks.start(self._wake_up(command), f"wake {model}")
            case ReadAhead(model=model):
                self._read_ahead_of[model] = self._tasks.start(self._hands.read_ahead(command), f"read ahead {model}")
            case StopReading(model=model):
                self._read_ahead_of.pop(model).cancel()
            case ReportSwap():
                self._diary.write(command, self._clock())
            case WakeAt(when=when):
                self._set_timer(when)
            case _:
                assert_never(command)

    async def _run(self, command: StartUpstream) -> None:
        """One process life, from its start to its end, told as it happens."""
        began = self._clock()
        started = await self._hands.start(command)
        took = self._clock() - began
        if isinstance(started, UpstreamFailed):
            log.warning(
                "upstream failed to start model=%s took_s=%.2f error=%r", command.model, took, str(started.error)
            )
            return self.tell(started)
        log.info("upstream ready model=%s took_s=%.2f pid=%s", command.model, took, started.upstream.pid)
        self.tell(started)
        self._tasks.start(self._learn_slots(started), f"ask {command.model}")
        exited = await self._hands.watch(started)
        log.info("upstream gone model=%s how=%r", command.model, exited.how)
        return self.tell(exited)

    async def _stop(self, command: StopUpstream) -> None:
        await self._take_breath(command.model)
        await self._hands.stop(command)

    async def _take_breath(self, model: ModelName) -> None:
        if (breath_s := self._scheduler.last_left_at(model) + BREATH_S - self._clock()) > 0:
            await asyncio.sleep(breath_s)

    async def _put_to_sleep(self, command: PutToSleep) -> None:
        await self._take_breath(command.model)
        began = self._clock()
        outcome = await self._hands.put_to_sleep(command)
        if isinstance(outcome, SleepFailed):
            log.warning("upstream does not sleep and is stopped model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("upstream asleep model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self.tell(outcome)

    async def _wake_up(self, command: WakeUp) -> None:
        began = self._clock()
        outcome = await self._hands.wake_up(command)
        if isinstance(outcome, WakeFailed):
            log.warning("upstream does not wake and is started anew model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("upstream awake model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self.tell(outcome)

    async def _learn_slots(self, ready: UpstreamReady) -> None:
        """While the first requests are on their way already: a server need not know."""
        if learned := await self._hands.ask_slots(ready):
            self.tell(learned)

    def _set_timer(self, when: Instant | None) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if when is None else loop.call_at(when, self.tell, ClockReached())

    # Tickets

    def _enter(self, visitor: Visitor) -> TicketId:
        ticket = next(self._numbers)
        self._visitors[ticket] = visitor
        return ticket

    @contextmanager
    def _operator(self) -> Iterator[tuple[TicketId, asyncio.Future[None]]]:
        """A ticket whose answer is awaited; leaving the block by any road gives it back."""
        wish = _Wish(asyncio.get_running_loop().create_future())
        ticket = self._enter(wish)
        try:
            yield ticket, wish.answer
        finally:
            self.leave(ticket)

    async def _empty_within(self, seconds: Seconds) -> bool:
        """Wait until no upstream runs; False when the time is up first."""
        try:
            async with asyncio.timeout(seconds):
                while running := [task for task in self._tasks if task.get_name().startswith("run ")]:
                    await asyncio.wait(running)
        except TimeoutError:
            return False
        return True


class _Wish:
    """An operator who awaits the outcome of a load or an unload."""

    def __init__(self, answer: asyncio.Future[None]) -> None:
        self.answer = answer

    def granted(self, upstream: Upstream, because: str = "") -> None:
        raise AssertionError(f"an operator's ticket was granted a lease on {upstream.address}")

    def confirmed(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)

    def refused(self, error: HotseatError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def cut(self, error: HotseatError) -> None:
        raise AssertionError(f"an operator's ticket holds no lease that could be cut: {error}")
