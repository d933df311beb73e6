"""The policies of other programs, taken from their code, with the same `handle` as the production scheduler.

`fifo` is the naive proxy; `collate` is llama-swap and llama.cpp's router: ready models are served at once, a swap
begins when its least recently used victims are idle; `ollama` has one pending load, at the head of the queue, and
takes idle victims by name. They know each model's memory and load time; none of them looks ahead. A policy reads the
state of its peer after every event and may admit tickets or begin a swap; the effects of a swap (drain, stop, wait for
the disk, start) are the same for all and happen there. Loads run one after the other.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hotseat.identifiers import Instant, LaunchId, ModelName, TicketId
from hotseat.scheduling.commands import Cause, Command, Grant, StartUpstream, StopUpstream, WakeAt
from hotseat.scheduling.events import RequestArrived, RequestLeft, UpstreamExited, UpstreamReady
from hotseat.simulation.simulator import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.events import Event


class ModelState(Enum):
    OFF = "off"
    PROMISED = "promised"
    """Its memory is reserved; it waits for its victims to stop and for the disk."""
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


STAYING = (ModelState.READY, ModelState.LOADING, ModelState.PROMISED)
WITH_PROCESS = (ModelState.LOADING, ModelState.READY, ModelState.DRAINING, ModelState.STOPPING)


class Peer:
    def __init__(self, catalog: Catalog, rule: Callable[[Peer], None]) -> None:
        self.catalog = catalog
        self._rule = rule
        self.now: Instant = 0.0
        self.states = dict.fromkeys(catalog.models, ModelState.OFF)
        self.in_flight = dict.fromkeys(catalog.models, 0)
        self.last_used: dict[ModelName, Instant] = dict.fromkeys(catalog.models, float("-inf"))
        self.ready_at: dict[ModelName, Instant] = {}
        self.line: dict[TicketId, ModelName] = {}
        """All waiting tickets, in the order of arrival."""
        self.waiting: dict[ModelName, dict[TicketId, Instant]] = {}
        """The same by model, with the time of arrival."""
        self.victims: dict[ModelName, list[ModelName]] = {}
        """For each promised model, those that must stop first."""
        self._evicted_at: dict[ModelName, Instant] = {}
        self._leases: dict[TicketId, ModelName] = {}
        self._launches: dict[ModelName, LaunchId] = {}
        self._launch = 0
        self._commands: list[Command] = []

    def handle(self, event: Event, now: Instant) -> list[Command]:
        self.now, self._commands = now, []
        self._note(event)
        self._rule(self)
        return self._commands

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        return self._evicted_at.get(model) if self.states[model] is ModelState.DRAINING else None

    # Queries for policies

    def in_state(self, *states: ModelState) -> list[ModelName]:
        return [name for name, state in self.states.items() if state in states]

    def wanted(self) -> list[ModelName]:
        """Models with waiting requests, longest waiting first."""
        return sorted(self.waiting, key=self.first_ticket)

    def first_ticket(self, name: ModelName) -> TicketId:
        return next(iter(self.waiting[name]))

    def oldest(self, name: ModelName) -> Instant:
        return next(iter(self.waiting[name].values()))

    def fits(self, wanted: ModelName, without: Sequence[ModelName]) -> bool:
        """Whether it fits once these are gone, beside all that stays or has memory reserved."""
        staying = (name for name in self.in_state(*STAYING) if name not in without)
        return self._within_budget([wanted, *staying])

    def is_loader_busy(self) -> bool:
        """Something loads, or waits only for the end of a stop."""
        return any(
            state is ModelState.LOADING
            or (state is ModelState.PROMISED and not any(self.in_flight[victim] for victim in self.victims[name]))
            for name, state in self.states.items()
        )

    # Actions of policies

    def admit(self, ticket: TicketId) -> None:
        """Forward; the server queues what exceeds its slots."""
        name = self._leave_line(ticket)
        slots = self.catalog.models[name].concurrency_limit
        if slots is None or self.in_flight[name] < slots:
            self.last_used[name] = self.now
        self.in_flight[name] += 1
        self._leases[ticket] = name
        self._commands.append(Grant(ticket, name, NOWHERE, "ready"))

    def admit_all(self, name: ModelName) -> None:
        for ticket in list(self.waiting[name]):
            self.admit(ticket)

    def swap(self, wanted: ModelName, victims: Iterable[ModelName]) -> None:
        self.states[wanted] = ModelState.PROMISED
        self.victims[wanted] = list(victims)
        for victim in self.victims[wanted]:
            self.states[victim] = ModelState.DRAINING
            self._evicted_at[victim] = self.now
            self._stop_if_drained(victim)
        self._start_promised()

    def wake_at(self, when: Instant) -> None:
        self._commands.append(WakeAt(when))

    # Effects

    def _note(self, event: Event) -> None:
        match event:
            case RequestArrived(ticket=ticket, model=name):
                self.line[ticket] = name
                self.waiting.setdefault(name, {})[ticket] = self.now
            case RequestLeft(ticket=ticket):
                name = self._leases.pop(ticket)
                self.in_flight[name] -= 1
                self.last_used[name] = self.now
                self._stop_if_drained(name)
            case UpstreamReady(model=name):
                self.states[name] = ModelState.READY
                self.ready_at[name] = self.last_used[name] = self.now
                self._start_promised()
            case UpstreamExited(model=name):
                self.states[name] = ModelState.OFF
                for victims in self.victims.values():
                    victims[:] = [victim for victim in victims if victim != name]
                self._start_promised()

    def _leave_line(self, ticket: TicketId) -> ModelName:
        name = self.line.pop(ticket)
        tickets = self.waiting[name]
        del tickets[ticket]
        if not tickets:
            del self.waiting[name]
        return name

    def _stop_if_drained(self, name: ModelName) -> None:
        if self.states[name] is ModelState.DRAINING and not self.in_flight[name]:
            self.states[name] = ModelState.STOPPING
            launch = self._launches.pop(name)
            self._commands.append(
                StopUpstream(name, launch, Cause.EVICTION, "unloaded to free memory for another model")
            )

    def _start_promised(self) -> None:
        for name, victims in list(self.victims.items()):
            if victims or self.in_state(ModelState.LOADING):
                continue
            if self._within_budget([name, *self.in_state(*WITH_PROCESS)]):
                self._start(name)

    def _start(self, name: ModelName) -> None:
        del self.victims[name]
        self.states[name] = ModelState.LOADING
        self._launch += 1
        launch = self._launches[name] = LaunchId(self._launch)
        self._commands.append(StartUpstream(name, launch, self.catalog.models[name], "somebody waits for it"))

    def _within_budget(self, names: Iterable[ModelName]) -> bool:
        taken: dict[Place, Bytes] = {}
        for name in names:
            for place, bytes_ in (self.catalog.models[name].memory or {}).items():
                taken[place] = taken.get(place, 0) + bytes_
        return all(bytes_ <= self.catalog.budgets[place] for place, bytes_ in taken.items())


def fifo(peer: Peer) -> None:
    """Strict arrival order: the first in the queue is served before any other."""
    for ticket, name in list(peer.line.items()):
        if peer.states[name] is ModelState.READY:
            peer.admit(ticket)
            continue
        if peer.states[name] is ModelState.OFF:
            swap(peer, name, least_recent(peer, peer.in_state(ModelState.READY)))
        return


def collate(peer: Peer) -> None:
    for name in peer.wanted():
        if peer.states[name] is ModelState.READY:
            peer.admit_all(name)
        elif peer.states[name] is ModelState.OFF:
            swap(peer, name, least_recent(peer, idle(peer)))


def ollama(peer: Peer) -> None:
    is_blocked = bool(peer.in_state(ModelState.PROMISED, ModelState.LOADING))
    for name in peer.wanted():
        if peer.states[name] is ModelState.READY:
            peer.admit_all(name)
        elif not is_blocked:
            is_blocked = True
            if peer.states[name] is ModelState.OFF:
                swap(peer, name, sorted(idle(peer)))


def idle(peer: Peer) -> list[ModelName]:
    return [name for name in peer.in_state(ModelState.READY) if not peer.in_flight[name]]


def least_recent(peer: Peer, names: Iterable[ModelName]) -> list[ModelName]:
    return sorted(names, key=lambda name: (peer.last_used[name], name))


def swap(peer: Peer, wanted: ModelName, order: list[ModelName]) -> None:
    """Load `wanted` in place of the fewest of `order`, taken from its front, if that is enough."""
    victims: list[ModelName] = []
    candidates = iter(order)
    while not peer.fits(wanted, victims):
        victim = next(candidates, None)
        if victim is None:
            return
        victims.append(victim)
    for victim in list(victims):
        others = [other for other in victims if other != victim]
        if peer.fits(wanted, others):
            victims = others
    peer.swap(wanted, victims)


RULES: dict[str, Callable[[Peer], None]] = {"fifo": fifo, "collate": collate, "ollama": ollama}
