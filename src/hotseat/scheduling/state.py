"""Everything the scheduler knows. Every change of a phase is made in transitions.py."""

from __future__ import annotations

from math import inf, isfinite
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field

from hotseat.catalog.spec import NOTHING
from hotseat.identifiers import LaunchId
from hotseat.scheduling.conversation_state import ConversationState
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.model_stats import ModelStats, StatsOfModels
from hotseat.scheduling.queue import Claim, Claims, Queue, RequestKind, Ticket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import LaunchRecipe, ModelSpec
    from hotseat.identifiers import Bytes, Instant, MeasuredMemory, ModelName, Place, Seconds, TicketId, Upstream
    from hotseat.scheduling.commands import Cause, Evicted
    from hotseat.scheduling.events import AboutLaunch, KeepAliveChanged, UnloadRequested, YieldRequested

    Memory: TypeAlias = Mapping[Place, Bytes]
    Cards: TypeAlias = tuple[Place, ...]

LONG_AGO: Instant = float("-inf")
CLAIMABLE = (Phase.COLD, Phase.ASLEEP)
"""Phases in which a model must claim memory before it can serve."""
MOST_SPREADS = 4096
"""Only the models of a few claims are asked for at a time."""
TRIES = 2
"""Attempts before a sleep level is judged: the first sleep may include allocating memory."""


class ModelState(Struct):
    spec: ModelSpec
    """What the current process was started with; the next one uses the catalog's."""
    number: int = 0
    """Models are shown in the order in which they were added."""
    phase: Phase = Phase.COLD
    since: Instant = LONG_AGO
    why: str = "not requested yet"
    """What caused its phase."""
    stats: ModelStats = field(default_factory=ModelStats)
    launch: LaunchId | None = None
    """Set while a process may exist: from loading to the end of unloading."""
    upstream: Upstream | None = None
    """Set from ready to the end of draining and, if it sleeps, until it is awake again or told to stop.

    It is also set while conversations are restored, before it is ready.
    """
    sleep_level: SleepLevel | None = None
    """Sleep level while it drains towards sleep, falls asleep, sleeps or wakes; else None."""
    ends_asleep: bool = False
    """It was told to stop while asleep: until its process is gone it holds what it kept."""
    failed_levels: set[str] = field(default_factory=set)
    """Levels that failed: not used again until an operator loads it or its configuration changes."""
    fell_asleep_in_s: Seconds | None = None
    """How long that took last; None: its process never slept."""
    conversations: ConversationState = field(default_factory=ConversationState)
    gpus: tuple[Place, ...] = ()
    """The cards that its current process may use; empty: it was not told."""
    given: Mapping[Place, Bytes] | None = None
    """What its process got of the devices for which its guess is too large: it counts as no more. None: not alone."""
    leases: dict[TicketId, Ticket] = field(default_factory=dict)
    slots_used: int = 0
    """Leases that take a slot."""
    slots_reported: int | None = None
    """Requests that its server processes at a time, as the server reports."""
    measured: Mapping[Place, Bytes] | None = None
    """Measured memory of its current process."""
    next_memory: Mapping[Place, Bytes] | None = None
    """Measured memory of its changed recipe, for when the process with the old one is gone."""
    is_adopted: bool = False
    """The previous process of hotseat has started its current process."""
    served: int = 0
    """Leases granted since it became ready."""
    ready_at: Instant = LONG_AGO
    idle_since: Instant = LONG_AGO
    """Since when it has no lease, if it is ready."""
    keep_alive: KeepAliveChanged | None = None
    """What a client has said about its current process; None: the configured ttl counts."""
    claimed_at: Instant = LONG_AGO
    """Start of the claim that caused its current load."""
    loads_alone: bool = True
    """No other load was in progress during its current or last load."""
    evicted_for_it: tuple[Evicted, ...] = ()
    """Models evicted for its current or next load."""
    evicted_at: Instant = LONG_AGO
    """When it was last evicted: its next claim counts from here, so that models rotate."""
    cut_at: Instant | None = None
    """When its leases are cut, while it drains for an operator."""
    cause: Cause | None = None
    """Why it is leaving."""
    unload_tickets: list[TicketId] = field(default_factory=list)
    has_answered: bool = False
    """Has its current or last process completed a response?"""
    failures: int = 0
    """Consecutive starts that failed or whose server died before it completed a response."""
    may_pass: bool = True
    """The last of them may: a later start may succeed although nobody changes anything."""
    retry_at: Instant = LONG_AGO
    """When its last backoff ends or ended."""
    last_error: str = ""
    """Includes server output: for operators only."""

    @property
    def name(self) -> ModelName:
        return self.spec.name

    @property
    def is_leaving(self) -> bool:
        return self.phase is Phase.DRAINING or self.phase is Phase.UNLOADING

    @property
    def falls_asleep(self) -> bool:
        """It drains or falls asleep, and will keep memory."""
        return self.is_leaving and self.sleep_level is not None and not self.ends_asleep

    @property
    def is_falling_asleep(self) -> bool:
        return self.phase is Phase.UNLOADING and self.falls_asleep

    @property
    def keeps_conversations(self) -> bool:
        return self.spec.keeps_conversations and not self.conversations.keeps_none_because

    @property
    def is_restoring(self) -> bool:
        """Its server is ready and reads conversations before the first request."""
        return self.phase is Phase.LOADING and self.upstream is not None and self.sleep_level is None

    @property
    def is_asleep(self) -> bool:
        """It has a process, but does not count as running."""
        return self.phase is Phase.ASLEEP or self.ends_asleep

    def prove_itself(self) -> None:
        """It has completed a response: earlier failures no longer count."""
        self.has_answered = True
        self.failures = 0

    def change_spec(self, spec: ModelSpec) -> None:
        """Its process, if any, stays. A new ttl outweighs what a client said before."""
        if spec.ttl_s != self.spec.ttl_s:
            self.keep_alive = None
        self.spec = spec

    @property
    def slots(self) -> int | None:
        return self.spec.concurrency_limit or self.slots_reported

    @property
    def ttl_s(self) -> Seconds | None:
        """Idle time until it is unloaded; None: never."""
        return self.spec.ttl_s if self.keep_alive is None else self.keep_alive.seconds

    @property
    def is_unwanted(self) -> bool:
        """A client wanted it unloaded as soon as no request uses it, also if it sleeps then."""
        return self.keep_alive is not None and self.keep_alive.seconds == 0

    def expires_at(self) -> Instant | None:
        """End of its ttl, if it is ready and unused, or asleep."""
        if self.phase is Phase.ASLEEP:
            if self.is_unwanted:
                return self.since
            sleep = self.spec.sleep
            return None if sleep is None or sleep.ttl_s is None else self.since + sleep.ttl_s
        if self.phase is not Phase.READY or self.leases or self.ttl_s is None:
            return None
        return self.idle_since + self.ttl_s


class Spread(NamedTuple):
    """What a model needs on some cards, and the objects from which that was computed: none of them ever changes."""

    spec: ModelSpec
    measured: Memory | None
    budgets: Memory
    memory: Memory


class CardMemo:
    """What placement.py has computed, for the next questions of a pass."""

    __slots__ = ("beside_all", "beside_pinned", "of", "spread")

    def __init__(self) -> None:
        self.spread: dict[tuple[ModelName, Cards], Spread] = {}
        self.clear()

    def clear(self) -> None:
        """After every change of what models have or may have."""
        self.of: dict[ModelName, Mapping[Cards, Memory]] = {}
        self.beside_all: Memory | None = None
        self.beside_pinned: Memory | None = None

    def keep(self, cards: Cards, spread: Spread) -> Spread:
        if len(self.spread) >= MOST_SPREADS:
            self.spread.clear()
        self.spread[spread.spec.name, cards] = spread
        return spread


class State:
    def __init__(self, catalog: Catalog, measured: MeasuredMemory = NOTHING) -> None:
        self.catalog = catalog
        self.available: Mapping[Place, Bytes] = NOTHING
        """Memory of a device that other programs leave, if measured."""
        self.limits: Mapping[Place, Bytes] = NOTHING
        """What models may use now: the budget, or less if other programs leave less."""
        self.reckon_limits()
        self.model_stats = StatsOfModels()
        self.models: dict[ModelName, ModelState] = {}
        self._added = 0
        for spec in catalog.models.values():
            self.add(spec, measured.get(spec.name))
        self.active: dict[ModelName, ModelState] = {}
        """Models that are not cold, so that passes do not depend on the number configured."""
        self.failed: dict[ModelName, ModelState] = {}
        """Cold models that have failed."""
        self.queue = Queue()
        self.claims = Claims()
        self.leases: dict[TicketId, ModelState] = {}
        self.card_choices = CardMemo()
        self.read_ahead: dict[ModelName, LaunchRecipe] = {}
        """Missing models whose files are being read, and the recipes they are read for."""
        self.is_closing = False
        self.is_handing_over = False
        """Servers are being handed over, to the next process or from the previous one: no step begins."""
        self.postponed: list[UnloadRequested] = []
        """They wait for the end of the handover, in order."""
        self.yields: dict[bool, YieldRequested] = {}
        """For an operator (False) and for a program (True)."""
        self.may_exceed_memory = False
        """Figures have changed since all models last fitted: starts alone never exceed a limit."""
        self.has_other_rules = False
        """A reload or the previous process may have left models running that may not run together."""
        self._launches = 0

    @property
    def yielding(self) -> YieldRequested | None:
        """Set while models must yield memory. A program needs all devices, an operator may need one."""
        return self.yields.get(True) or self.yields.get(False)

    def next_launch(self) -> LaunchId:
        self._launches += 1
        return LaunchId(self._launches)

    @property
    def last_launch(self) -> int:
        return self._launches

    def note_launch(self, launch: int) -> None:
        """The next launch gets a higher number than this one, which another process of hotseat has used."""
        self._launches = max(self._launches, launch)

    def with_process(self) -> list[ModelState]:
        """Models with a process: they hold memory until it is gone."""
        return [model for model in self.active.values() if model.phase.takes_memory]

    def in_phase(self, phase: Phase) -> list[ModelState]:
        return [model for model in self.active.values() if model.phase is phase]

    def of_launch(self, event: AboutLaunch) -> ModelState | None:
        """The model, if the event is about its current process."""
        model = self.models.get(event.model)
        return model if model and model.launch == event.launch else None

    def reckon_limits(self) -> None:
        """Called after every change of the budgets or of what other programs leave."""
        left = self.available
        self.limits = {place: min(budget, left.get(place, budget)) for place, budget in self.catalog.budgets.items()}

    def reduced(self) -> dict[Place, Bytes]:
        """What other programs leave, where that is less than the budget."""
        budgets = self.catalog.budgets
        return {place: left for place, left in self.available.items() if left < budgets.get(place, 0)}

    def add(self, spec: ModelSpec, memory: Mapping[Place, Bytes] | None) -> ModelState:
        self._added += 1
        model = self.models[spec.name] = ModelState(spec, self._added, stats=self.model_stats.of(spec.name))
        model.stats.memory = memory
        return model

    def forget(self, name: ModelName) -> None:
        """Remove a model without a process that left the catalog."""
        self.models.pop(name).stats.memory = None
        self.model_stats.removed(name)
        self.active.pop(name, None)
        self.failed.pop(name, None)

    def shown(self) -> list[ModelState]:
        """Models that are not cold, have failed or are waited for, in the order in which they were added."""
        waited_for = {name: self.models[name] for name in self.queue.models()}
        return sorted({**self.active, **self.failed, **waited_for}.values(), key=attrgetter("number"))

    def is_idle(self, model: ModelState) -> bool:
        return not model.leases and not self.queue.count(model.name)

    def reckon_claim(self, model: ModelState) -> None:
        """Add, update or drop the claim of a model; called after every change of its queue or phase."""
        if model.phase not in CLAIMABLE or not self.queue.count(model.name):
            return self.claims.drop(model.name)
        first, is_batch = self.queue.first(model.name), self.queue.is_batch_only(model.name)
        since = max(first.since, model.evicted_at)
        return self.claims.put(Claim(since, first.since, first.id, model.name, is_batch))

    def load_s(self, name: ModelName) -> Seconds:
        """Expected time until it is ready once memory is free; a guess if it was never loaded, which nobody is told."""
        usual_s = self.usual_load_s(name)
        return usual_s if isfinite(usual_s) else self.model_stats.load_s(name)

    def usual_load_s(self, name: ModelName) -> Seconds:
        """Its measured time to load, or to wake if it sleeps or would; infinite: not known."""
        model = self.models[name]
        load_s = inf if model.stats.load_s is None else model.stats.load_s
        if (model.spec.sleep is None and model.sleep_level is None) or model.ends_asleep:
            return load_s
        sleep_level = model.sleep_level or next(iter(self.sleep_levels(model)), None)
        sleep_stats = model.stats.sleep_stats_by_level.get(sleep_level.name) if sleep_level else None
        return sleep_stats.wake_s if sleep_stats and sleep_stats.times else load_s

    def usual_stop_s(self, name: ModelName) -> Seconds:
        """Its measured time to stop, or to fall asleep if it does or would; infinite: not known."""
        model = self.models[name]
        sleep_level = model.sleep_level if model.is_leaving else next(iter(self.sleep_levels(model)), None)
        if sleep_level and not model.ends_asleep:
            sleep_stats = model.stats.sleep_stats_by_level.get(sleep_level.name)
            return sleep_stats.sleep_s if sleep_stats and sleep_stats.times else inf
        return inf if model.stats.stop_s is None else model.stats.stop_s + self.save_s(model)

    def stop_s(self, name: ModelName) -> Seconds:
        """Expected time until its memory is free once unused; a guess if never measured, which nobody is told."""
        model = self.models[name]
        sleep_stats = (
            model.stats.sleep_stats_by_level.get(model.sleep_level.name)
            if model.sleep_level and model.falls_asleep
            else None
        )
        if sleep_stats and sleep_stats.times:
            return sleep_stats.sleep_s
        return self.model_stats.stop_s(name) + self.save_s(model)

    def save_s(self, model: ModelState) -> Seconds:
        """Expected time to save its conversations before it is stopped."""
        return model.stats.conversations.save_s if model.keeps_conversations else 0.0

    def sleep_levels(self, model: ModelState) -> list[SleepLevel]:
        """Sleep levels with few attempts, as configured; then those faster than a restart, fastest first."""
        if model.spec.sleep is None:
            return []
        levels, stats = model.spec.sleep.levels, model.stats.sleep_stats_by_level
        levels = tuple(level for level in levels if level.name not in model.failed_levels)
        untried = [each for each in levels if each.name not in stats or stats[each.name].times < TRIES]
        # An unmeasured stop counts as zero: if that decides for stopping, the stop is measured.
        restart_s = (model.stats.stop_s or 0.0) + self.save_s(model) + self.model_stats.load_s(model.name)
        known = [(stats[level.name].round_trip_s, level) for level in levels if level not in untried]
        return [*untried, *(level for took_s, level in sorted(known, key=itemgetter(0)) if took_s < restart_s)]


def takes_slot(ticket: Ticket) -> bool:
    return ticket.kind is RequestKind.USE
