"""What the scheduler knows, and nothing else: changed in transitions.py only, read everywhere in this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.identifiers import LaunchId
from hotseat.scheduling.claims import Claim, Claims
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.model_stats import Habit, Habits
from hotseat.scheduling.queue import Line, Ticket, Wish
from hotseat.scheduling.sleep_choice import Times, worth_it

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.identifiers import Bytes, Instant, ModelName, Place, Seconds, TicketId, Upstream
    from hotseat.scheduling.commands import Cause, Evicted
    from hotseat.scheduling.events import WayMade

LONG_AGO: Instant = float("-inf")
CLAIMABLE = (Phase.COLD, Phase.ASLEEP)
"""A model that is missing: whoever wants it has to claim its room."""


@dataclass(slots=True)
class ModelState:
    spec: ModelSpec
    """What the present process was started with; what a next one will be started with is the catalog's."""
    phase: Phase = Phase.COLD
    since: Instant = LONG_AGO
    why: str = "not requested yet"
    """What brought it into its phase."""
    habit: Habit = field(default_factory=Habit)
    launch: LaunchId | None = None
    """Set exactly while a process may exist: from loading to the end of unloading."""
    upstream: Upstream | None = None
    """Set exactly from ready to the end of draining, and from there until it is awake again or told to stop."""
    bed: SleepLevel | None = None
    """How it will sleep when it is drained, falls asleep, sleeps, or wakes; None: it does none of these."""
    ends_asleep: bool = False
    """It was told to stop in its sleep: until its process is gone it takes what it kept."""
    sleepless: set[str] = field(default_factory=set)
    """Levels that failed: not tried again until an operator loads it or its configuration changes."""
    fell_asleep_in_s: Seconds | None = None
    """How long that took the last time; None: its process never slept."""
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
    has_answered: bool = False
    """Has its present process, or the last one, answered a request to the end?"""
    failures: int = 0
    """Starts in a row that failed, or whose server died before it answered anybody."""
    rest_until: Instant = LONG_AGO
    last_error: str = ""
    """With what the server wrote: for operators only."""

    @property
    def name(self) -> ModelName:
        return self.spec.name

    @property
    def is_leaving(self) -> bool:
        return self.phase is Phase.DRAINING or self.phase is Phase.UNLOADING

    @property
    def goes_to_bed(self) -> bool:
        """It drains or falls asleep, and will keep something."""
        return self.is_leaving and self.bed is not None and not self.ends_asleep

    @property
    def is_falling_asleep(self) -> bool:
        return self.phase is Phase.UNLOADING and self.goes_to_bed

    @property
    def is_asleep(self) -> bool:
        """It has a process, but no place among those that are awake."""
        return self.phase is Phase.ASLEEP or self.ends_asleep

    def prove_itself(self) -> None:
        """It has answered a request to the end: what failed before is forgotten."""
        self.has_answered = True
        self.failures = 0

    @property
    def slots(self) -> int | None:
        """How many requests it takes at a time; None: unknown."""
        return self.spec.concurrency_limit or self.slots_told

    def expires_at(self) -> Instant | None:
        """When its ttl ends, if it is ready and unused, or sleeps."""
        if self.phase is Phase.ASLEEP:
            sleep = self.spec.sleep
            return None if sleep is None or sleep.ttl_s is None else self.since + sleep.ttl_s
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
        """Models that take room: memory is free when the process is gone, or sleeps."""
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
        if model.phase not in CLAIMABLE or not self.line.count(model.name):
            return self.claims.drop(model.name)
        first = self.line.first(model.name)
        return self.claims.put(Claim(max(first.since, model.evicted_at), first.since, first.id, model.name))

    def load_s(self, name: ModelName) -> Seconds:
        """Until it is ready (again) once its room is there: what loading takes, or waking where it sleeps or would."""
        model = self.models[name]
        if (model.spec.sleep is None and model.bed is None) or model.ends_asleep:
            return self.habits.load_s(name)
        bed = model.bed or next(iter(self.beds(model)), None)
        nap = model.habit.naps.get(bed.name) if bed else None
        return nap.wake_s if nap and nap.times else self.habits.load_s(name)

    def stop_s(self, name: ModelName) -> Seconds:
        """Until its room is there once nobody uses it: what stopping takes, or falling asleep."""
        model = self.models[name]
        nap = model.habit.naps.get(model.bed.name) if model.bed and model.goes_to_bed else None
        return nap.sleep_s if nap and nap.times else self.habits.stop_s(name)

    def beds(self, model: ModelState) -> list[SleepLevel]:
        """The ways to sleep that are worth it, the best first."""
        if model.spec.sleep is None:
            return []
        # A stop that was never seen counts as nothing: if that tips the balance, it is seen.
        restart_s = (model.habit.stop_s or 0.0) + self.habits.load_s(model.name)
        return worth_it(model.spec.sleep, model.sleepless, Times(restart_s, model.habit.naps))


def takes_slot(ticket: Ticket) -> bool:
    return ticket.wish is Wish.USE
