"""The requests in progress: each has a number and a holder, which learns what becomes of it.

So have the loads, unloads and cancellations that operators ask for and await.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, Protocol, assert_never, cast

from hotseat.errors import CancelledByOperator, UnknownTicket, Unloaded, broken
from hotseat.identifiers import ClientId
from hotseat.scheduling.commands import Confirm, Cut, Grant, Refuse
from hotseat.scheduling.events import LoadRequested, RequestArrived, UnloadRequested
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.errors import HotseatError
    from hotseat.identifiers import ModelName, TicketId, Upstream
    from hotseat.scheduling.commands import RequestCommand
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.questions import Questions

log = logging.getLogger(__name__)

OPERATOR = ClientId("operator")
P = ParamSpec("P")


class Waiter(Protocol):
    """The holder of a ticket. Called by the dispatcher, so it must return at once; if it raises, its request ends."""

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        """The lease lasts until `leave`; `reason` says what the ticket waited for, if it waited."""

    def confirmed(self) -> None:
        """The operator's load or unload is done; the ticket is gone."""

    def refused(self, error: HotseatError) -> None:
        """No lease; the ticket is gone."""

    def cut(self, error: HotseatError) -> None:
        """End the exchange visibly now, then call `leave`."""


class Tickets:
    def __init__(self, leave: Callable[[TicketId], None]) -> None:
        self.leave = leave
        """Give a ticket back to the scheduler too. Safe to call twice."""
        self._numbers = cast("Iterator[TicketId]", itertools.count(1))
        self._waiters: dict[TicketId, Waiter] = {}
        self.holder = self._waiters.get
        """Of a ticket; None: it is not in progress."""

    def enter(self, waiter: Waiter) -> TicketId:
        """A new ticket."""
        ticket = next(self._numbers)
        self._waiters[ticket] = waiter
        return ticket

    def enter_as(self, ticket: TicketId, waiter: Waiter) -> None:
        """A ticket that another process has numbered."""
        self._waiters[ticket] = waiter

    def remove(self, ticket: TicketId) -> Waiter | None:
        """Its holder; None: it was removed before."""
        return self._waiters.pop(ticket, None)

    def in_progress(self) -> list[TicketId]:
        return [*self._waiters]

    def next_number(self) -> TicketId:
        """Higher than any number so far."""
        return next(self._numbers)

    def number_from(self, ticket: TicketId) -> None:
        self._numbers = cast("Iterator[TicketId]", itertools.count(ticket))

    # What becomes of a request

    def answer(self, command: RequestCommand) -> None:
        """Only a lease that is granted or cut stays in progress: its holder gives it back."""
        ticket = command.ticket
        waiter = self.holder(ticket) if isinstance(command, Grant | Cut) else self.remove(ticket)
        if waiter is None:
            return
        match command:
            case Grant(upstream=upstream, reason=reason):
                self.inform(ticket, waiter, waiter.granted, upstream, reason)
            case Confirm():
                self.inform(ticket, waiter, waiter.confirmed)
            case Refuse(error=error):
                self.inform(ticket, waiter, waiter.refused, error)
            case Cut(reason=reason, error=error):
                self.inform(ticket, waiter, waiter.cut, error or Unloaded(reason))
            case _:
                assert_never(command)

    def inform(
        self, ticket: TicketId, waiter: Waiter, news: Callable[P, None], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        try:
            news(*args, **kwargs)
        except Exception as problem:
            self.end_broken(ticket, waiter, problem)

    def end_broken(self, ticket: TicketId, waiter: Waiter, problem: Exception) -> None:
        """A waiter raised: its state is unknown, so it is ended and gives its lease back."""
        log.error("internal error ticket=%s", ticket, exc_info=problem)
        attempt(waiter.cut, broken(problem))
        self.leave(ticket)


class OperatorRequests:
    """Loads, unloads and cancellations that somebody asks for and awaits. Each has a ticket, as requests have."""

    def __init__(self, tickets: Tickets, questions: Callable[[], Questions], tell: Callable[[Event], None]) -> None:
        self._tickets, self._questions, self._tell = tickets, questions, tell

    async def load(self, model: ModelName, client: ClientId = OPERATOR) -> None:
        """Return when the model is ready; raise if it fails."""
        with self._awaited(OperatorWaits()) as (ticket, done):
            self._tell(LoadRequested(ticket, model, client))
            await done

    async def load_for_client(self, model: ModelName, client: ClientId) -> None:
        """The same for a client, which may do no more than a request that ends at once: it clears no failures."""
        with self._awaited(ClientWaits()) as (ticket, done):
            self._tell(RequestArrived(ticket, model, client, takes_slot=False))
            await done

    async def unload(self, model: ModelName, *, force: bool = False) -> None:
        """Return when the model's process is gone; NotRunning if there was none."""
        with self._awaited(OperatorWaits()) as (ticket, done):
            self._tell(UnloadRequested(ticket, model, force))
            await done

    @contextmanager
    def _awaited(self, waiter: OperatorWaits) -> Iterator[tuple[TicketId, asyncio.Future[None]]]:
        """A ticket whose outcome is awaited; leaving the block in any way gives it back."""
        ticket = self._tickets.enter(waiter)
        try:
            yield ticket, waiter.done
        finally:
            self._tickets.leave(ticket)

    def cancel(self, ticket: TicketId) -> None:
        """End a request: refused if it waits, cut visibly if it is served."""
        waiter = self._tickets.holder(ticket)
        if waiter is None:
            raise UnknownTicket(
                f"ticket {ticket} is not in progress; GET /hotseat/requests lists the requests that are"
            )
        if self._questions().waits_for(ticket) is not None:
            error = CancelledByOperator("an operator cancelled this request while it was waiting")
            self._tickets.inform(ticket, waiter, waiter.refused, error)
        else:
            error = CancelledByOperator("an operator cancelled this request")
            self._tickets.inform(ticket, waiter, waiter.cut, error)


class OperatorWaits:
    """An operator who awaits a load or an unload."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        raise AssertionError(f"an operator's ticket was granted a lease on {upstream.address}")

    def confirmed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def refused(self, error: HotseatError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def cut(self, error: HotseatError) -> None:
        """There is no lease to end: the operator stops waiting, the load or unload continues."""
        self.refused(error)


class ClientWaits(OperatorWaits):
    """A client that awaits a load and gives its lease back at once."""

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self.confirmed()
