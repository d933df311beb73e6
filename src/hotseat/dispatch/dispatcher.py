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
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec

from hotseat.catalog.catalog import CatalogChange, compare
from hotseat.catalog.spec import NOTHING
from hotseat.dispatch.failure_log import log_failure
from hotseat.dispatch.request_trace import Traffic
from hotseat.dispatch.server_tasks import ServerTasks
from hotseat.dispatch.swap_log import SwapLog
from hotseat.dispatch.tickets import ClientWaits, OperatorWaits, Tickets
from hotseat.errors import CancelledByOperator, UnknownTicket, Unloaded, broken
from hotseat.identifiers import ClientId
from hotseat.scheduling.commands import (
    Confirm,
    Cut,
    Grant,
    Refuse,
    ReportFailure,
    ReportSwap,
    WakeAt,
)
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    Event,
    KeepAliveChanged,
    LoadRequested,
    PromptProcessed,
    RequestArrived,
    RequestLeft,
    ServerAdopted,
    ShutdownRequested,
    UnloadRequested,
    UpstreamReady,
)
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import Footprint
    from hotseat.dispatch.journal import Journal
    from hotseat.dispatch.launcher import Launcher
    from hotseat.dispatch.tickets import Waiter
    from hotseat.identifiers import Bytes, Instant, MeasuredMemory, ModelName, Place, Seconds, TicketId, Upstream
    from hotseat.scheduling.commands import Command, RequestCommand
    from hotseat.scheduling.lifecycle import Phase
    from hotseat.scheduling.scheduler import Scheduler
    from hotseat.scheduling.view import ModelView, View

log = logging.getLogger(__name__)

P = ParamSpec("P")

OPERATOR = ClientId("operator")

STUCK_S: Seconds = 5.0
"""Added to `unload_timeout_s`: a server that still exists after that will not end by waiting."""


class Dispatcher:
    def __init__(
        self,
        scheduler: Scheduler,
        launcher: Launcher,
        journal: Journal,
        clock: Callable[[], Instant] | None = None,
    ) -> None:
        self._scheduler = scheduler
        self.catalog: Catalog = scheduler.catalog
        """The current catalog; looked up for every request."""
        self._journal = journal
        self.traffic = Traffic()
        """While it is watched, the fast path is off, because a watcher must see every request."""
        self._clock = clock or asyncio.get_running_loop().time
        self.tickets = Tickets()
        self._unreported: deque[Event] = deque()
        self._telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._swap_log = SwapLog()
        self._servers = ServerTasks(launcher, self.tell, self._clock, scheduler.last_left_at)

    # Requests and operators

    def view(self) -> View:
        """Without cold models that have not failed and that no request waits for."""
        return self._scheduler.view(self._clock())

    def view_of_all(self) -> View:
        """With every model: for lists of all models."""
        return self._scheduler.view_of_all(self._clock())

    def view_of(self, model: ModelName) -> ModelView:
        """One model, cold or not."""
        return self._scheduler.view_of(model, self._clock())

    @property
    def available(self) -> Mapping[Place, Bytes]:
        """Memory of a device that other programs leave, if measured."""
        return self._scheduler.available

    @property
    def limits(self) -> Mapping[Place, Bytes]:
        """What models may use now of each device with a budget."""
        return self._scheduler.limits

    def footprint(self, model: ModelName) -> Footprint | None:
        """What it counts as while it is loaded; None: unknown, so it takes a whole device."""
        return self._scheduler.footprint(model)

    def may_load_beside_all(self, model: ModelName) -> bool:
        """Is it not loaded, does no request wait, and does it fit beside every model that is loaded?"""
        return self._scheduler.may_load_beside_all(model)

    def why(self, model: ModelName) -> str:
        """One sentence: why its requests wait."""
        return self._scheduler.why(model, self._clock())

    def queue_length(self, model: ModelName) -> int:
        """Requests in flight and waiting; 0 if none waits."""
        return self._scheduler.queue_length(model)

    def phase_of(self, model: ModelName) -> Phase:
        return self._scheduler.phase_of(model)

    def is_running(self, model: ModelName) -> bool:
        return self.ready_server(model) is not None

    def ready_server(self, model: ModelName) -> Upstream | None:
        """The server of a ready model; None: it is not ready."""
        return self._scheduler.ready_server(model)

    def last_used(self) -> ModelName | None:
        """The ready model that was used last; None: no model is ready."""
        return self._scheduler.last_used()

    def requests(self, model: ModelName) -> int:
        """Requests in flight and waiting."""
        return self._scheduler.requests(model)

    def waits_for(self, ticket: TicketId) -> ModelName | None:
        """The model that a ticket waits for; None: it does not wait."""
        return self._scheduler.waits_for(ticket)

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
                self._end_broken(ticket, waiter, problem)
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

    def cancel_request(self, ticket: TicketId) -> None:
        """End a request for an operator: refused if it waits, cut visibly if it is served."""
        waiter = self.tickets.holder(ticket)
        if waiter is None:
            raise UnknownTicket(
                f"ticket {ticket} is not in progress; GET /hotseat/requests lists the requests that are"
            )
        if self.waits_for(ticket) is not None:
            error = CancelledByOperator("an operator cancelled this request while it was waiting")
            self._inform(ticket, waiter, waiter.refused, error)
        else:
            self._inform(ticket, waiter, waiter.cut, CancelledByOperator("an operator cancelled this request"))

    async def load(self, model: ModelName, client: ClientId = OPERATOR) -> None:
        """Return when the model is ready; raise if it fails."""
        with self._awaited(OperatorWaits()) as (ticket, done):
            self.tell(LoadRequested(ticket, model, client))
            await done

    async def load_for_client(self, model: ModelName, client: ClientId) -> None:
        """The same for a client, which may do no more than a request that ends at once: it clears no failures."""
        with self._awaited(ClientWaits()) as (ticket, done):
            self.tell(RequestArrived(ticket, model, client, takes_slot=False))
            await done

    @contextmanager
    def _awaited(self, waiter: OperatorWaits) -> Iterator[tuple[TicketId, asyncio.Future[None]]]:
        """A ticket whose outcome is awaited; leaving the block in any way gives it back."""
        ticket = self.tickets.enter(waiter)
        try:
            yield ticket, waiter.done
        finally:
            self.leave(ticket)

    def keep_alive(self, model: ModelName, seconds: Seconds | None) -> None:
        """Change the model's ttl until its process is gone; 0: unload it when it is idle; None: no ttl."""
        self.tell(KeepAliveChanged(model, seconds))

    async def unload(self, model: ModelName, *, force: bool = False) -> None:
        """Return when the model's process is gone; NotRunning if there was none."""
        with self._awaited(OperatorWaits()) as (ticket, done):
            self.tell(UnloadRequested(ticket, model, force))
            await done

    def change_catalog(self, catalog: Catalog, measured: MeasuredMemory = NOTHING) -> CatalogChange:
        """`measured` is what is known of its recipes; models that did not change keep their figures."""
        change = compare(self.catalog, catalog)
        self.tell(CatalogChanged(catalog, measured))
        return change

    async def shut_down(self, within: Seconds) -> None:
        """Refuse new requests, let leases finish for `within` seconds, then cut; return when no server is left."""
        self.tell(ShutdownRequested())
        if not await self._servers.ended_within(within):
            self.tell(ShutdownRequested(force=True))
            longest = max((spec.unload_timeout_s for spec in self.catalog.models.values()), default=0.0)
            if not await self._servers.ended_within(longest + STUCK_S):
                log.error("upstreams did not exit and are left to the guard")
        self._set_timer(None)
        await self._servers.aclose()

    # Events

    def tell(self, event: Event) -> None:
        """Never raises: an event that the scheduler fails on must not break its sender."""
        self._unreported.append(event)
        if self._telling:
            return
        self._telling = True
        try:
            while self._unreported:
                self._decide(self._unreported.popleft())
        finally:
            self._telling = False

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
                self._answer(command)
            case ReportSwap():
                self._swap_log.write(command, self._clock())
            case ReportFailure():
                log_failure(command)
            case WakeAt(when=when):
                self._set_timer(when)
            case _:
                self._servers.carry_out(command)

    def _answer(self, command: RequestCommand) -> None:
        """Only a lease that is granted or cut stays in progress: its holder gives it back."""
        ticket = command.ticket
        waiter = self.tickets.holder(ticket) if isinstance(command, Grant | Cut) else self.tickets.remove(ticket)
        if waiter is None:
            return
        match command:
            case Grant(upstream=upstream, reason=reason):
                self._inform(ticket, waiter, waiter.granted, upstream, reason)
            case Confirm():
                self._inform(ticket, waiter, waiter.confirmed)
            case Refuse(error=error):
                self._inform(ticket, waiter, waiter.refused, error)
            case Cut(reason=reason, error=error):
                self._inform(ticket, waiter, waiter.cut, error or Unloaded(reason))

    def _inform(
        self, ticket: TicketId, waiter: Waiter, news: Callable[P, None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        try:
            news(*args, **kwargs)
        except Exception as problem:
            self._end_broken(ticket, waiter, problem)

    def _end_broken(self, ticket: TicketId, waiter: Waiter, problem: Exception) -> None:
        """A waiter raised: its state is unknown, so it is ended and gives its lease back."""
        log.error("internal error ticket=%s", ticket, exc_info=problem)
        attempt(waiter.cut, broken(problem))
        self.leave(ticket)

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

    def adopt(self, adopted: ServerAdopted) -> None:
        """A server that an earlier process has started is ours."""
        self.tell(adopted)
        self._servers.adopt(UpstreamReady(adopted.model, adopted.launch, adopted.upstream))

    def _set_timer(self, when: Instant | None) -> None:
        if self._timer:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if when is None else loop.call_at(when, self.tell, ClockReached())
