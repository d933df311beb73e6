"""The requests in progress: each has a number and somebody who is told what becomes of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.errors import HotseatError
    from hotseat.identifiers import TicketId, Upstream


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
    def __init__(self) -> None:
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
