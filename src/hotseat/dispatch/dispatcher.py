"""Passes events to the scheduler and carries out its commands.

`tell` is a plain synchronous method: under asyncio nothing can run in between, so there is no queue and no lock. An
event that arises while commands are being carried out (a client that disconnects as it is granted) is handled next,
never nested. There is one timer, because the scheduler asks for one time.

Every command is carried out, or its failure becomes the next event: an exception never affects other commands.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from hotseat.dispatch.reports import SwapLog, log_failure
from hotseat.dispatch.request_trace import Traffic
from hotseat.dispatch.server_tasks import ServerTasks
from hotseat.dispatch.tickets import OperatorRequests, Tickets
from hotseat.errors import broken
from hotseat.scheduling.commands import Confirm, Cut, Grant, Refuse, ReportFailure, ReportSwap, WakeAt
from hotseat.scheduling.events import (
    ClockReached,
    Event,
    LoadRequested,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
    looked,
)
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe
    from hotseat.dispatch.journal import Journal
    from hotseat.dispatch.server_tasks import Launcher
    from hotseat.dispatch.tickets import Waiter
    from hotseat.identifiers import ClientId, Instant, ModelName, Seconds, TicketId
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.questions import Questions
    from hotseat.scheduling.scheduler import Scheduler
    from hotseat.scheduling.view import ModelView, View

log = logging.getLogger(__name__)


class Dispatcher:
    def __init__(
        self,
        scheduler: Scheduler,
        launcher: Launcher,
        journal: Journal,
        clock: Callable[[], Instant] | None = None,
        look: Callable[[LaunchRecipe], asyncio.Future[str] | None] = lambda _: None,
    ) -> None:
        """`look` finds a missing file of a command; None: there is nothing to wait for."""
        self._scheduler = scheduler
        self._clock = clock or asyncio.get_running_loop().time
        self.views = Views(lambda: self._scheduler, self._clock)
        self.catalog: Catalog = scheduler.catalog
        """The current catalog; looked up for every request."""
        self._journal = journal
        self.traffic = Traffic()
        """While it is watched, the fast path is off, because a watcher must see every request."""
        self.tickets = Tickets(self.leave)
        self._unreported: deque[Event] = deque()
        self._telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._swap_log = SwapLog()
        self.servers = ServerTasks(launcher, self.tell, self._clock, scheduler.last_left_at)
        self.operator = OperatorRequests(self.tickets, lambda: self._scheduler, self.tell)
        self._look = look

    @property
    def questions(self) -> Questions:
        """What others may ask of the scheduler: only `tell` changes it."""
        return self._scheduler

    # Requests

    def ask(
        self, model: ModelName, client: ClientId, waiter: Waiter, *, takes_slot: bool = True, is_batch: bool = False
    ) -> TicketId:
        """Request a lease; the waiter may be called before this returns."""
        ticket = self.tickets.enter(waiter)
        upstream = None
        if not (self._telling or self.traffic.is_watched):
            upstream = self._scheduler.lease_at_once(ticket, model, client, takes_slot, self._clock())
        if upstream is None:
            self.tell(RequestArrived(ticket, model, client, takes_slot, is_batch=is_batch))
        else:
            self._journal.passed_by += 1
            try:  # inline: nearly every request takes this path
                waiter.granted(upstream)
            except Exception as problem:
                self.tickets.end_broken(ticket, waiter, problem)
        return ticket

    def leave(self, ticket: TicketId, is_answered: bool = False) -> None:
        """Give the lease back or leave the queue. Safe to call twice. `is_answered`: the response was completed."""
        if self.tickets.remove(ticket) is None:
            return
        commands = None
        if not (self._telling or self.traffic.is_watched):
            commands = self._scheduler.leave_quietly(ticket, is_answered, self._clock())
        if commands is None:
            self.tell(RequestLeft(ticket, is_answered))
        else:
            for command in commands:
                self._carry_out(command)

    def prompt_processed(self, prompt: PromptProcessed) -> None:
        """What the server says about the prompt of a request whose lease still exists."""
        if self.traffic.is_watched:
            self.traffic.note_prompt(prompt)
        if self._scheduler.wants_prompt(prompt.ticket, prompt.computed + prompt.cached + prompt.generated):
            self.tell(prompt)
        else:
            self._scheduler.pass_over_prompt(prompt.ticket)

    async def shut_down(self, within: Seconds) -> None:
        """Refuse new requests, let leases finish for `within` seconds, then cut; return when no server is left."""
        longest = max((spec.unload_timeout_s for spec in self.catalog.models.values()), default=0.0)
        await self.servers.shut_down(within, longest)
        self._set_timer(None)
        await self.servers.aclose()

    # Events

    def tell(self, event: Event) -> None:
        """Never raises: an event that the scheduler fails on must not break its sender."""
        if isinstance(event, RequestArrived | LoadRequested) and (look := self._look_for_files(event)):
            return look.add_done_callback(lambda found: self._looked(event, found.result()))
        self._unreported.append(event)
        if self._telling:
            return None
        self._telling = True
        try:
            while self._unreported:
                self._decide(self._unreported.popleft())
        finally:
            self._telling = False
        return None

    def _look_for_files(self, event: RequestArrived | LoadRequested) -> asyncio.Future[str] | None:
        """Nothing is unloaded for a model before its files were looked for."""
        spec = self.catalog.models.get(event.model) if event.missing is None else None
        return self._look(spec.recipe) if spec and self.questions.phase_of(spec.name) is Phase.COLD else None

    def _looked(self, event: RequestArrived | LoadRequested, missing: str) -> None:
        if self.tickets.holder(event.ticket):  # else it has left meanwhile
            self.tell(looked(event, missing))

    def _decide(self, event: Event) -> None:
        now = self._clock()
        try:
            commands = self._scheduler.handle(event, now)
        except Exception as problem:
            log.exception("internal error event=%r", event)
            return self._undecided(event, problem)
        self.catalog = self._scheduler.catalog
        attempt(self._journal.record, event, commands)
        if self.traffic.is_watched:
            attempt(self.traffic.note, event, commands, now)
        for command in commands:
            attempt(self._carry_out, command)
        return None

    def _undecided(self, event: Event, problem: Exception) -> None:
        """A bug in the scheduler: the sender is refused and its ticket is dropped."""
        if isinstance(event, RequestArrived | LoadRequested | UnloadRequested):
            if waiter := self.tickets.remove(event.ticket):
                attempt(waiter.refused, broken(problem))
            self._unreported.append(RequestLeft(event.ticket))

    # Commands

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant() | Confirm() | Refuse() | Cut():
                self.tickets.answer(command)
            case ReportSwap():
                self._swap_log.write(command, self._clock())
            case ReportFailure():
                log_failure(command)
            case WakeAt(when=when):
                self._set_timer(when)
            case _:
                self.servers.carry_out(command)

    # Handover to another process

    def pause(self) -> None:
        """Decide nothing until `resume`: events are kept."""
        self._telling = True
        self._set_timer(None)

    def resume(self) -> None:
        """Decide about what happened since `pause`."""
        self._telling = False
        self.tell(ClockReached())

    def follow(self, scheduler: Scheduler) -> None:
        """Another process has taken the servers: from now on its scheduler decides, also about what was kept."""
        self._scheduler = scheduler
        self.resume()

    def carry_out(self, command: Command) -> None:
        """A decision of that process."""
        attempt(self._carry_out, command)

    def _set_timer(self, when: Instant | None) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if when is None else loop.call_at(when, self.tell, ClockReached())


class Views:
    """The scheduler's views as of now."""

    def __init__(self, questions: Callable[[], Questions], clock: Callable[[], Instant]) -> None:
        self._questions, self._clock = questions, clock

    def current(self) -> View:
        """Without cold models that have not failed and that no request waits for."""
        return self._questions().view(self._clock())

    def of_all(self) -> View:
        """With every model: for lists of all models."""
        return self._questions().view_of_all(self._clock())

    def of_each(self, view: View) -> Iterator[ModelView]:
        """Every model in turn, as in the view if it is there: for lists that are made in slices."""
        return self._questions().view_of_each(view)

    def of(self, model: ModelName) -> ModelView:
        """One model, cold or not."""
        return self._questions().view_of(model, self._clock())

    def why(self, model: ModelName) -> str:
        """One sentence: why its requests wait."""
        return self._questions().why(model, self._clock())
