"""A policy that knows every arrival of an open workload: an upper bound for all others.

It takes turns as the production scheduler does, but keeps exactly those models that are requested again soon enough,
and evicts by the true time of next use: the cheapest set by load seconds per second until then.
"""

from __future__ import annotations

from collections import deque
from itertools import combinations
from typing import TYPE_CHECKING

from bench.scheduling.policies import ModelState, Peer, least_recent

from hotseat.identifiers import ModelName
from hotseat.simulation.trace import Open

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event
    from hotseat.simulation.trace import Trace

NEVER: Instant = float("inf")
LONG_AGO: Instant = float("-inf")
PATIENCE = 2.0
MOST_SETS = 10
"""With more candidates than this, sets are not enumerated but filled greedily from the cheapest on."""
IN_USE = 1e6


class Clairvoyant:
    def __init__(self, catalog: Catalog, trace: Trace) -> None:
        self._peer = Peer(catalog, self._decide)
        self._load_s: dict[ModelName, Seconds] = {ModelName(model.name): model.load for model in trace.models}
        self._arrivals: dict[ModelName, deque[Instant]] = {name: deque() for name in self._load_s}
        for at, name in sorted((each.at, each.model) for each in trace.clients if isinstance(each, Open)):
            self._arrivals[ModelName(name)].append(at)
        self._claimed: dict[ModelName, Instant] = {}
        """The claim that caused a model's current load."""
        self._evicted: dict[ModelName, Instant] = {}

    def handle(self, event: Event, now: Instant) -> list[Command]:
        return self._peer.handle(event, now)

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        return self._peer.draining_since(model, now)

    def _decide(self, peer: Peer) -> None:
        self._serve(peer)
        wake = NEVER
        missing = [name for name in peer.waiting if peer.states[name] is ModelState.OFF]
        for wanted in sorted(missing, key=lambda name: (self._claim(name), peer.first_ticket(name))):
            if peer.is_loader_busy():
                break
            if peer.fits(wanted, ()):
                self._swap(wanted, [])
                continue
            leaves_at = {name: self._may_leave_at(name, wanted) for name in peer.in_state(ModelState.READY)}
            free = [name for name, when in leaves_at.items() if when <= peer.now + 1e-9]
            wake = min([wake, *(when for name, when in leaves_at.items() if name not in free)])
            if victims := self._cheapest(wanted, free):
                self._swap(wanted, victims)
        if wake < NEVER:
            peer.wake_at(wake)

    def _serve(self, peer: Peer) -> None:
        for name in peer.in_state(ModelState.READY):
            slots = peer.catalog.models[name].concurrency_limit or 1
            for ticket in list(peer.waiting.get(name, ()))[: max(0, slots - peer.in_flight[name])]:
                peer.admit(ticket)

    def _claim(self, name: ModelName) -> Instant:
        return max(self._peer.oldest(name), self._evicted.get(name, LONG_AGO))

    def _may_leave_at(self, resident: ModelName, wanted: ModelName) -> Instant:
        peer, claim = self._peer, self._claim(wanted)
        price = self._load_s[wanted] + self._load_s[resident]
        overtook = claim <= self._claimed[resident]
        due = (claim if overtook else max(claim, peer.ready_at[resident])) + PATIENCE * price
        if self._is_in_use(resident) or peer.now >= due:
            return due
        next_use = self._next_use(resident)
        return due if next_use <= due and next_use - peer.now < price else peer.now

    def _is_in_use(self, name: ModelName) -> bool:
        return bool(self._peer.in_flight[name] or self._peer.waiting.get(name))

    def _next_use(self, name: ModelName) -> Instant:
        coming = self._arrivals[name]
        while coming and coming[0] <= self._peer.now + 1e-9:
            coming.popleft()
        return coming[0] if coming else NEVER

    def _price(self, name: ModelName) -> float:
        peer = self._peer
        using = peer.in_flight[name] + len(peer.waiting.get(name, ()))
        in_use = IN_USE * (1 + using) if using else 0.0
        return in_use + self._load_s[name] / max(0.1, self._next_use(name) - peer.now)

    def _cheapest(self, wanted: ModelName, free: list[ModelName]) -> list[ModelName] | None:
        price = {name: self._price(name) for name in free}
        order = sorted(least_recent(self._peer, free), key=price.__getitem__)
        if len(order) > MOST_SETS:
            return next((order[:n] for n in range(1, len(order) + 1) if self._peer.fits(wanted, order[:n])), None)
        sets = (chosen for n in range(1, len(order) + 1) for chosen in combinations(order, n))
        enough = [chosen for chosen in sets if self._peer.fits(wanted, chosen)]
        return list(min(enough, key=lambda chosen: sum(map(price.__getitem__, chosen)))) if enough else None

    def _swap(self, wanted: ModelName, victims: list[ModelName]) -> None:
        self._claimed[wanted] = self._claim(wanted)
        for victim in victims:
            self._evicted[victim] = self._peer.now
        self._peer.swap(wanted, victims)
