"""Loads, unloads and cancellations that somebody asks for and awaits. Each has a ticket, as requests have."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotseat.errors import CancelledByOperator, UnknownTicket
from hotseat.identifiers import ClientId
from hotseat.scheduling.events import LoadRequested, RequestArrived, UnloadRequested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.dispatch.tickets import Tickets
    from hotseat.errors import HotseatError
    from hotseat.identifiers import ModelName, TicketId, Upstream
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.questions import Questions

OPERATOR = ClientId("operator")


class OperatorRequests:
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
