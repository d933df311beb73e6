"""Tickets in waiting: one line per model, and within it one place per client.

Who asks 600 times at once waits for 600 answers; who asks once beside them waits for one. Every question the decision
asks (who is next, since when does the first one wait, how many) is answered without looking at the other tickets.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hotseat.scheduling.fairness import FairOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.scheduling.fairness import CostOf
    from hotseat.terms import ClientId, Instant, ModelName, Seconds, TicketId


class Wish(Enum):
    USE = "use"
    """Forward a request: takes one of the model's slots."""
    READ = "read"
    """Forward a request that generates nothing: takes no slot."""
    LOAD = "load"
    """Make it ready: an operator waits, nothing is forwarded."""


class Ticket(NamedTuple):
    """One per request, so it is the cheapest kind of immutable there is."""

    id: TicketId
    model: ModelName
    client: ClientId
    since: Instant
    """When it came; of a lease, when it was granted."""
    wish: Wish


class ModelLine:
    """Those who wait for one model."""

    __slots__ = ("_at_once", "_by_client", "_order", "tickets")

    def __init__(self) -> None:
        # Ordered dictionaries know their first entry at once, however many were taken out before it.
        self.tickets: OrderedDict[TicketId, Ticket] = OrderedDict()
        """Oldest first."""
        self._at_once: OrderedDict[TicketId, Ticket] = OrderedDict()
        self._by_client: dict[ClientId, OrderedDict[TicketId, Ticket]] = {}
        self._order = FairOrder()

    def join(self, ticket: Ticket) -> None:
        self.tickets[ticket.id] = ticket
        if ticket.wish is not Wish.USE:
            self._at_once[ticket.id] = ticket
            return
        self._order.join(ticket.client)
        self._by_client.setdefault(ticket.client, OrderedDict())[ticket.id] = ticket

    def leave(self, ticket: Ticket) -> None:
        del self.tickets[ticket.id]
        if ticket.wish is not Wish.USE:
            del self._at_once[ticket.id]
            return
        queue = self._by_client[ticket.client]
        del queue[ticket.id]
        if not queue:
            del self._by_client[ticket.client]
            self._order.leave(ticket.client)

    def take(self, ticket: Ticket, cost_s: Seconds) -> None:
        """It is served, and its client charged for it."""
        if ticket.wish is Wish.USE:
            self._order.charge(ticket.client, cost_s)
        self.leave(ticket)

    def next(self, *, slot_free: bool) -> Ticket | None:
        """Who is served next; those who take no slot wait for none."""
        if self._at_once:
            return next(iter(self._at_once.values()))
        if slot_free and self._order:
            return next(iter(self._by_client[self._order.first()].values()))
        return None

    def clients(self) -> int:
        """How many different clients wait for a slot."""
        return len(self._order)

    def in_order(self, cost_of: CostOf) -> Iterator[Ticket]:
        """As they will be served, if nobody comes or goes."""
        yield from self._at_once.values()
        queues = {client: iter(queue.values()) for client, queue in self._by_client.items()}
        waiting = {client: len(queue) for client, queue in self._by_client.items()}
        for client in self._order.rounds(waiting, cost_of):
            yield next(queues[client])


class Line:
    """Who waits for which model. A model without tickets has no entry, so that iterating costs what waits."""

    def __init__(self) -> None:
        self._by_model: dict[ModelName, ModelLine] = {}
        self._model_of: dict[TicketId, ModelName] = {}

    def __len__(self) -> int:
        return len(self._model_of)

    def __iter__(self) -> Iterator[Ticket]:
        return (ticket for line in self._by_model.values() for ticket in line.tickets.values())

    def models(self) -> tuple[ModelName, ...]:
        return tuple(self._by_model)

    def of(self, model: ModelName) -> ModelLine | None:
        return self._by_model.get(model)

    def join(self, ticket: Ticket) -> None:
        line = self._by_model.get(ticket.model)
        if line is None:
            line = self._by_model[ticket.model] = ModelLine()
        line.join(ticket)
        self._model_of[ticket.id] = ticket.model

    def leave(self, ticket: TicketId) -> Ticket | None:
        """Take a ticket out, wherever it stands; None if it does not wait here."""
        model = self._model_of.pop(ticket, None)
        if model is None:
            return None
        line = self._by_model[model]
        left = line.tickets[ticket]
        line.leave(left)
        if not line.tickets:
            del self._by_model[model]
        return left

    def take(self, ticket: Ticket, cost_s: Seconds) -> None:
        """It is served: out of the line, and `cost_s` charged to its client."""
        del self._model_of[ticket.id]
        line = self._by_model[ticket.model]
        line.take(ticket, cost_s)
        if not line.tickets:
            del self._by_model[ticket.model]

    def waiting_for(self, model: ModelName) -> tuple[Ticket, ...]:
        """Oldest first."""
        line = self._by_model.get(model)
        return tuple(line.tickets.values()) if line else ()

    def next(self, model: ModelName, *, slot_free: bool) -> Ticket | None:
        line = self._by_model.get(model)
        return line.next(slot_free=slot_free) if line else None

    def count(self, model: ModelName) -> int:
        line = self._by_model.get(model)
        return len(line.tickets) if line else 0

    def clients(self, model: ModelName) -> int:
        """How many different clients wait for a slot on this model."""
        line = self._by_model.get(model)
        return line.clients() if line else 0

    def first(self, model: ModelName) -> Ticket:
        """The one that has waited longest for this model."""
        return next(iter(self._by_model[model].tickets.values()))

    def oldest(self, model: ModelName) -> Instant:
        """When the first of those waiting for this model came."""
        return self.first(model).since
