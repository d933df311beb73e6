"""What the scheduler knows, and nothing else: changed in moves.py only, read everywhere in this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.scheduling.claims import Claim, Claims
from hotseat.scheduling.habits import Habit, Habits
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.line import Line, Ticket, Wish
from hotseat.terms import LaunchId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.scheduling.commands import Cause, Evicted
    from hotseat.scheduling.events import WayMade
    from hotseat.terms import Bytes, Instant, ModelName, Place, Seconds, TicketId, Upstream

LONG_AGO: Instant = float("-inf")


@dataclass(slots=True)
class ModelState:
    spec: ModelSpec
    """What the present process was started with; what a next one will be started with is the catalog's."""
    phase: Phase = Phase.COLD
    since: Instant = LONG_AGO
    why: str = "nobody asked for it yet"
    """What brought it into its phase."""
    habit: Habit = field(default_factory=Habit)
    launch: LaunchId | None = None
    """Set exactly while a process may exist: from loading to the end of unloading."""
    upstream: Upstream | None = None
    """Set exactly from ready to the end of draining."""
    leases: dict[TicketId, Ticket] = field(default_factory=dict)
    slots_used: int = 0
    """How many of the leases take a slot."""
    slots_told: int | None = None
    """How many requests its server works on at a time, as the server itself says."""
    measured: Mapping[Place, Bytes] | None = None
    """What its present process was seen to take."""
    served: int = 0
    """Leases granted since it became ready."""
    ready_at: Instant = LONG_AGO
    idle_since: Instant = LONG_AGO
    """Since when a ready model without a lease is unused."""
    claimed_at: Instant = LONG_AGO
    """The claim that caused the present load."""
    loads_alone: bool = True
    """Of its present or last load: no other one was under way."""
    evicted_for_it: tuple[Evicted, ...] = ()
    """Who made room for its present or coming load."""
    evicted_at: Instant = LONG_AGO
    """When it last had to make room: its next claim counts from there, so that models rotate."""
    cut_at: Instant | None = None
    """While draining for an operator: when leases are cut."""
    cause: Cause | None = None
    """While it is leaving: what for."""
    unload_wishes: list[TicketId] = field(default_factory=list)
    failures: int = 0
    """Failed starts and crashes in a row."""
    rest_until: Instant = LONG_AGO
    last_error: str = ""

    @property
    def name(self) -> ModelName:
        return self.spec.name

    @property
    def is_leaving(self) -> bool:
        return self.phase is Phase.DRAINING or self.phase is Phase.UNLOADING

    @property
    def slots(self) -> int | None:
        """How many requests it takes at a time; None: unknown."""
        return self.spec.concurrency_limit or self.slots_told

    def expires_at(self) -> Instant | None:
        """When its ttl ends, if it is ready and unused."""
        if self.phase is not Phase.READY or self.leases or self.spec.ttl_s is None:
            return None
        return self.idle_since + self.spec.ttl_s


class State:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.habits = Habits()
        self.models: dict[ModelName, ModelState] = {}
        for spec in catalog.models.values():
            self.add(spec)
        self.active: dict[ModelName, ModelState] = {}
        """Those that are not cold: what there is to look at, however many are configured."""
        self.line = Line()
        self.claims = Claims()
        self.leases: dict[TicketId, ModelState] = {}
        self.read_ahead: dict[ModelName, LaunchRecipe] = {}
        """Missing models whose files are being brought near, and what they would be started with."""
        self.is_closing = False
        self.way: WayMade | None = None
        """Set while models have to be gone for somebody who has precedence."""
        self.may_be_crowded = False
        """Figures have changed since all who are there were last seen to fit: starts alone never take too much."""
        self._launches = 0

    def next_launch(self) -> LaunchId:
        self._launches += 1
        return LaunchId(self._launches)

    def with_process(self) -> list[ModelState]:
        """Models that take room: memory is free when the process is gone."""
        return [model for model in self.active.values() if model.phase.takes_room]

    def in_phase(self, phase: Phase) -> list[ModelState]:
        return [model for model in self.active.values() if model.phase is phase]

    def add(self, spec: ModelSpec) -> ModelState:
        model = self.models[spec.name] = ModelState(spec, habit=self.habits.of(spec.name))
        return model

    def forget(self, name: ModelName) -> None:
        """A model without a process that the catalog no longer has."""
        del self.models[name]
        self.active.pop(name, None)

    def is_idle(self, model: ModelState) -> bool:
        """Unused, and nobody waits for a slot on it."""
        return not model.leases and not self.line.count(model.name)

    def reckon_claim(self, model: ModelState) -> None:
        """Enter what a missing model claims, or strike it out; after every change of its line or its phase."""
        if model.phase is not Phase.COLD or not self.line.count(model.name):
            return self.claims.drop(model.name)
        first = self.line.first(model.name)
        return self.claims.put(Claim(max(first.since, model.evicted_at), first.since, first.id, model.name))

    def load_s(self, name: ModelName) -> Seconds:
        return self.habits.load_s(name)


def takes_slot(ticket: Ticket) -> bool:
    return ticket.wish is Wish.USE
