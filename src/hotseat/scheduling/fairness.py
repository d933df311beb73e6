"""In which order clients are served who wait for the same model: by the time they have had, not by how often they ask.

Each client has an account of the seconds it was served while others waited; whoever has had least is next. Who joins
begins where the last one served stood: nobody saves up by staying away, and nobody escapes what he has had by leaving
the line for a moment. The accounts are forgotten when nobody waits any more.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.terms import ClientId, Seconds

    CostOf: TypeAlias = Callable[[ClientId], Seconds]

MOST_ACCOUNTS = 4096
LEAST_COST_S: Seconds = 1e-3
"""A request whose length nobody knows still counts as one."""


class FairOrder:
    """Who of those waiting is next. Every question costs the logarithm of their number."""

    __slots__ = ("_accounts", "_heap", "_joined", "_places", "_reached")

    def __init__(self) -> None:
        self._accounts: dict[ClientId, Seconds] = {}
        self._heap: list[tuple[Seconds, int, ClientId]] = []
        self._places: dict[ClientId, int] = {}
        """The number under which a waiting client is in the heap; other entries are leftovers."""
        self._joined = 0
        self._reached: Seconds = 0.0
        """The account of whoever was served last, before that was charged."""

    def __len__(self) -> int:
        return len(self._places)

    def join(self, client: ClientId) -> None:
        if client not in self._places:
            self._accounts[client] = max(self._reached, self._accounts.get(client, 0.0))
            self._enter(client)

    def leave(self, client: ClientId) -> None:
        """It waits no longer; what it has had is remembered while others wait."""
        del self._places[client]
        if len(self._accounts) > MOST_ACCOUNTS:
            self._forget_settled()

    def first(self) -> ClientId:
        while self._places.get(self._heap[0][2]) != self._heap[0][1]:
            heappop(self._heap)
        return self._heap[0][2]

    def charge(self, client: ClientId, cost_s: Seconds) -> None:
        """One of its requests is served, and will take about so long."""
        self._reached = max(self._reached, self._accounts[client])
        self._accounts[client] += max(cost_s, LEAST_COST_S)
        self._enter(client)

    def rounds(self, waiting: dict[ClientId, int], cost_of: CostOf) -> list[ClientId]:
        """Whose requests are served one after the other, if nobody comes or goes and each has so many."""
        left, order = dict(waiting), []
        heap = [(self._accounts[client], self._places[client], client) for client in waiting]
        heapify(heap)
        while heap:
            account, place, client = heappop(heap)
            order.append(client)
            left[client] -= 1
            if left[client]:
                cost_s = max(cost_of(client), LEAST_COST_S)
                heappush(heap, (account + cost_s, place + self._joined, client))
        return order

    def _enter(self, client: ClientId) -> None:
        self._joined += 1
        self._places[client] = self._joined
        heappush(self._heap, (self._accounts[client], self._joined, client))

    def _forget_settled(self) -> None:
        """Who has had no more than everybody needs no account; nor, if there are still too many, does anybody gone."""
        waiting = {client: self._accounts[client] for client in self._places}
        owing = {client: had for client, had in self._accounts.items() if had > self._reached}
        self._accounts = waiting if len(owing) > MOST_ACCOUNTS else {**owing, **waiting}
