"""The requests in progress: each has a number and a holder, which learns what becomes of it."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, ParamSpec, Protocol, assert_never, cast

from hotseat.errors import Unloaded, broken
from hotseat.scheduling.commands import Confirm, Cut, Grant, Refuse
from hotseat.tasks import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream
    from hotseat.scheduling.commands import RequestCommand

log = logging.getLogger(__name__)

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
