"""Tickets in waiting, in the order they came: one line per model, one bound for all of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.terms import ClientId, Instant, ModelName, TicketId


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
    wish: Wish


class Line:
    """Who waits for which model. A model without tickets has no entry, so that iterating costs what waits."""

    def __init__(self) -> None:
        self._by_model: dict[ModelName, dict[TicketId, Ticket]] = {}
        self._model_of: dict[TicketId, ModelName] = {}

    def __len__(self) -> int:
        return len(self._model_of)

    def __iter__(self) -> Iterator[Ticket]:
        return (ticket for tickets in self._by_model.values() for ticket in tickets.values())

    def models(self) -> tuple[ModelName, ...]:
        return tuple(self._by_model)

    def join(self, ticket: Ticket) -> None:
        self._by_model.setdefault(ticket.model, {})[ticket.id] = ticket
        self._model_of[ticket.id] = ticket.model

    def leave(self, ticket: TicketId) -> Ticket | None:
        """Take a ticket out, wherever it stands; None if it does not wait here."""
        model = self._model_of.pop(ticket, None)
        if model is None:
            return None
        tickets = self._by_model[model]
        left = tickets.pop(ticket)
        if not tickets:
            del self._by_model[model]
        return left

    def waiting_for(self, model: ModelName) -> tuple[Ticket, ...]:
        """Oldest first."""
        return tuple(self._by_model.get(model, {}).values())

    def count(self, model: ModelName) -> int:
        return len(self._by_model.get(model, ()))

    def oldest(self, model: ModelName) -> Instant:
        """When the first of those waiting for this model came."""
        return next(iter(self._by_model[model].values())).since
