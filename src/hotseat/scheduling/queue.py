"""Waiting tickets: one queue per model, first come, first served, with a limited number of places per client.

A client that sends 600 requests at once has eight places; its other requests enter the queue as those are served. A
later client waits for eight of them at most, not for 600. Batch requests wait until no others do, but every fifth
request that is served is one of them. Every question of the scheduler (the next ticket, the oldest, the count) is
answered without iterating over tickets.

A model that requests wait for and that is not loaded has a claim. It starts with the model's oldest ticket, but not
before the model's last turn ended, so that models rotate.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotseat.identifiers import ClientId, Instant, ModelName, TicketId

OTHERS_FIRST = 4
"""So many other requests are served before a batch request that waits."""
PLACES = 8
"""Per client in the queue of one model: more than a person or an agent needs, less than a batch."""
LOOKED_AT = 16
"""Only this many claims, the oldest, are examined: a decision must not take longer than a request."""
SHARE = 3
"""A client may have at most this many times as many waiting requests as the queue has free places. One client can fill
three quarters of a queue, never a whole queue of four or more places."""


class RequestKind(Enum):
    USE = "use"
    """Forward a request; takes a slot."""
    READ = "read"
    """Forward a request that generates nothing; takes no slot."""
    LOAD = "load"
    """Load for an operator; nothing is forwarded."""


class Ticket(NamedTuple):
    """A NamedTuple because each request creates one."""

    id: TicketId
    model: ModelName
    client: ClientId
    since: Instant
    """Arrival time; for a lease, when it was granted."""
    kind: RequestKind
    is_batch: bool = False
    """Others are served before it."""


class ClientCounts:
    """Waiting tickets per client, without zero entries."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[ClientId, int] = {}

    def of(self, client: ClientId) -> int:
        return self._counts.get(client, 0)

    def add(self, client: ClientId) -> None:
        self._counts[client] = self._counts.get(client, 0) + 1

    def remove(self, client: ClientId) -> None:
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]


class TwoLines:
    """Tickets that have a place: a line of batch requests, and one of all others."""

    __slots__ = ("_batch", "_others", "_served_before_batch")

    def __init__(self) -> None:
        self._others: OrderedDict[TicketId, Ticket] = OrderedDict()
        self._batch: OrderedDict[TicketId, Ticket] = OrderedDict()
        self._served_before_batch = 0
        """Others that were served while the first batch request waited."""

    def add(self, ticket: Ticket) -> None:
        (self._batch if ticket.is_batch else self._others)[ticket.id] = ticket

    def remove(self, ticket: Ticket) -> bool:
        """False: it was not in line."""
        return (self._batch if ticket.is_batch else self._others).pop(ticket.id, None) is not None

    def note_served(self, ticket: Ticket) -> None:
        is_before_batch = bool(self._batch) and not ticket.is_batch
        self._served_before_batch = self._served_before_batch + 1 if is_before_batch else 0

    def next(self) -> Ticket | None:
        is_batchs_turn = bool(self._batch) and self._served_before_batch >= OTHERS_FIRST
        line = self._batch if is_batchs_turn else self._others or self._batch
        return next(iter(line.values()), None)

    def copy(self) -> TwoLines:
        lines = TwoLines()
        lines._others, lines._batch = self._others.copy(), self._batch.copy()
        lines._served_before_batch = self._served_before_batch
        return lines


class ModelQueue:
    """The queue of one model."""

    __slots__ = ("_at_once", "_behind", "_in_line", "_places_taken", "batch_count", "tickets")

    def __init__(self) -> None:
        # An OrderedDict finds its first entry at once, however many were removed before it.
        self.tickets: OrderedDict[TicketId, Ticket] = OrderedDict()
        """All tickets, oldest first."""
        self._at_once: OrderedDict[TicketId, Ticket] = OrderedDict()
        self._in_line = TwoLines()
        self._behind: dict[ClientId, OrderedDict[TicketId, Ticket]] = {}
        """Tickets beyond their client's places."""
        self._places_taken: dict[ClientId, int] = {}
        self.batch_count = 0
        """How many tickets are batch requests."""

    def join(self, ticket: Ticket) -> None:
        is_older = bool(self.tickets) and ticket.since < next(reversed(self.tickets.values())).since
        self.tickets[ticket.id] = ticket
        if is_older:  # only those of a previous process, which come in the order of service
            self.tickets = OrderedDict(sorted(self.tickets.items(), key=lambda item: item[1].since))
        self.batch_count += ticket.is_batch
        taken = self._places_taken.get(ticket.client, 0)
        if ticket.kind is not RequestKind.USE:
            self._at_once[ticket.id] = ticket
        elif taken < PLACES:
            self._in_line.add(ticket)
            self._places_taken[ticket.client] = taken + 1
        else:
            self._behind.setdefault(ticket.client, OrderedDict())[ticket.id] = ticket

    def serve(self, ticket: Ticket) -> None:
        if ticket.kind is RequestKind.USE:
            self._in_line.note_served(ticket)
        self.leave(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Without being served, or after it was noted as served."""
        del self.tickets[ticket.id]
        self.batch_count -= ticket.is_batch
        if ticket.kind is not RequestKind.USE:
            del self._at_once[ticket.id]
        elif self._in_line.remove(ticket):
            self._pass_on(ticket.client)
        else:
            self._take_from_behind(ticket.client, ticket.id)

    def _pass_on(self, client: ClientId) -> None:
        """Give the free place to the client's next request, at the end of the queue."""
        if client in self._behind:
            following = self._take_from_behind(client, next(iter(self._behind[client])))
            self._in_line.add(following)
            return
        self._places_taken[client] -= 1
        if not self._places_taken[client]:
            del self._places_taken[client]

    def _take_from_behind(self, client: ClientId, ticket: TicketId) -> Ticket:
        queue = self._behind[client]
        taken = queue.pop(ticket)
        if not queue:
            del self._behind[client]
        return taken

    def next(self, *, slot_free: bool) -> Ticket | None:
        """The next ticket to serve; loads and reads need no slot."""
        if self._at_once:
            return next(iter(self._at_once.values()))
        return self._in_line.next() if slot_free else None

    def clients(self) -> int:
        """How many clients wait for a slot."""
        return len(self._places_taken)

    def in_order(self) -> Iterator[Ticket]:
        """The order of service if nothing changes."""
        yield from self._at_once.values()
        in_line = self._in_line.copy()
        behind = {client: iter(queue.values()) for client, queue in self._behind.items()}
        while ticket := in_line.next():
            in_line.note_served(ticket)
            in_line.remove(ticket)
            yield ticket
            if following := next(behind.get(ticket.client, iter(())), None):
                in_line.add(following)


class Queue:
    """The queues of all models. A model without tickets has no entry, so iteration costs only what waits."""

    def __init__(self) -> None:
        self._by_model: dict[ModelName, ModelQueue] = {}
        self.model_of: dict[TicketId, ModelName] = {}
        self._by_client = ClientCounts()

    def __len__(self) -> int:
        return len(self.model_of)

    def __iter__(self) -> Iterator[Ticket]:
        return (ticket for queue in self._by_model.values() for ticket in queue.tickets.values())

    def models(self) -> tuple[ModelName, ...]:
        return tuple(self._by_model)

    def queues(self) -> Iterable[ModelQueue]:
        return self._by_model.values()

    def of(self, model: ModelName) -> ModelQueue | None:
        return self._by_model.get(model)

    def join(self, ticket: Ticket) -> None:
        queue = self._by_model.get(ticket.model)
        if queue is None:
            queue = self._by_model[ticket.model] = ModelQueue()
        queue.join(ticket)
        self.model_of[ticket.id] = ticket.model
        self._by_client.add(ticket.client)

    def serve(self, ticket: Ticket) -> None:
        """Remove a ticket whose turn it is."""
        self._by_model[ticket.model].serve(ticket)
        self._forget(ticket)

    def leave(self, ticket: TicketId) -> Ticket | None:
        """Remove a ticket that is not served; None if it does not wait."""
        model = self.model_of.get(ticket)
        if model is None:
            return None
        left = self._by_model[model].tickets[ticket]
        self._by_model[model].leave(left)
        self._forget(left)
        return left

    def _forget(self, ticket: Ticket) -> None:
        del self.model_of[ticket.id]
        self._by_client.remove(ticket.client)
        if not self._by_model[ticket.model].tickets:
            del self._by_model[ticket.model]

    def waiting_for(self, model: ModelName) -> tuple[Ticket, ...]:
        queue = self._by_model.get(model)
        return tuple(queue.tickets.values()) if queue else ()

    def next(self, model: ModelName, *, slot_free: bool) -> Ticket | None:
        queue = self._by_model.get(model)
        return queue.next(slot_free=slot_free) if queue else None

    def count(self, model: ModelName) -> int:
        queue = self._by_model.get(model)
        return len(queue.tickets) if queue else 0

    def of_client(self, client: ClientId) -> int:
        """How many requests of this client wait."""
        return self._by_client.of(client)

    def reached_limit(self, client: ClientId, kind: RequestKind, most: int) -> str | None:
        """What refuses another request of this client, as text. Only loads keep operators' loads out."""
        own = self.of_client(client)
        waiting = own if kind is RequestKind.LOAD else len(self)
        if waiting >= most:
            bound = "1 request is" if waiting == 1 else f"{waiting} requests are"
        elif own >= SHARE * (most - waiting):
            bound = f"{own} requests from this client are"
        else:
            return None
        return f"{bound} already waiting (scheduler.maxQueue)"

    def clients(self, model: ModelName) -> int:
        queue = self._by_model.get(model)
        return queue.clients() if queue else 0

    def is_batch_only(self, model: ModelName) -> bool:
        """Do requests wait for this model, and are all of them batch requests?"""
        queue = self._by_model.get(model)
        return queue is not None and queue.batch_count == len(queue.tickets)

    def first(self, model: ModelName) -> Ticket:
        return next(iter(self._by_model[model].tickets.values()))

    def oldest(self, model: ModelName) -> Instant:
        """When the oldest waiting request for this model arrived."""
        return self.first(model).since


class Claim(NamedTuple):
    """Sorts by age of the claim, then of the ticket."""

    since: Instant
    oldest: Instant
    """When the model's oldest waiting request arrived."""
    ticket: TicketId
    """The oldest ticket; orders claims with equal times."""
    model: ModelName
    is_batch: bool = False
    """Only batch requests wait for it, so it is less urgent."""


class Claims:
    def __init__(self) -> None:
        self._in_order: list[Claim] = []
        self._of: dict[ModelName, Claim] = {}

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._in_order)

    def first(self, most: int) -> list[Claim]:
        return self._in_order[:most]

    def of(self, model: ModelName) -> Claim | None:
        return self._of.get(model)

    def put(self, claim: Claim) -> None:
        if self._of.get(claim.model) != claim:
            self.drop(claim.model)
            self._of[claim.model] = claim
            insort(self._in_order, claim)

    def drop(self, model: ModelName) -> None:
        claim = self._of.pop(model, None)
        if claim is not None:
            del self._in_order[bisect_left(self._in_order, claim)]
