"""Decide about each claim, oldest first, from the state alone; settle.py carries the decisions out.

The same computation explains waiting: what cannot be done for a claim now is its reason. Memory being freed for a claim
counts as taken, so that no younger claim gets it. No earlier decision is stored: the phases show what is in progress.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hotseat.catalog.spec import NOTHING
from hotseat.scheduling.eviction import choose_victims
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import MemoryForecast, MemoryUse, is_in_the_way, needs, refusal, takes
from hotseat.scheduling.turns import (
    LOOKED_AT,
    NEVER,
    DecisionContext,
    ProtectedBy,
    Protection,
    begin,
    is_protected,
    protection_of,
    turn_s,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import NeverFits, NoMemory
    from hotseat.identifiers import Bytes, Instant, ModelName, Place
    from hotseat.scheduling.claims import Claim
    from hotseat.scheduling.state import ModelState, State

    Models: TypeAlias = list[ModelState]
    Holds: TypeAlias = tuple[Protection, ...]
    Missing: TypeAlias = Mapping[Place, Bytes]

EVICTING = 4
"""Only this many claims may choose victims: older claims come first anyway."""


class Action(Enum):
    REFUSE = "refuse"
    """It can never fit."""
    START = "start"
    EVICT = "evict"
    LEAVING = "leaving"
    """Its memory is being freed: models drain or stop for it."""
    LOADER = "loader"
    """Another load is in progress. Nothing is evicted meanwhile, so that freed memory can be used at once."""
    HELD = "held"
    """Its memory is protected, at least until `look_again`."""
    BEHIND = "behind"
    """An older claim comes first."""


class ClaimDecision(NamedTuple):
    """What to do about a claim now, or what it waits for."""

    claim: Claim
    model: ModelState
    spec: ModelSpec
    step: Action
    others: tuple[ModelState, ...] = ()
    """The models that the step concerns: victims, the one loading or the one ahead."""
    holds: tuple[Protection, ...] = ()
    sleep_levels: Mapping[ModelName, SleepLevel] = NOTHING
    """Sleep level of each victim that sleeps; other victims stop."""
    error: NeverFits | NoMemory | None = None

    @property
    def look_again(self) -> Instant:
        return min((each.until for each in self.holds), default=NEVER)


def decisions(state: State, now: Instant) -> Iterator[ClaimDecision]:
    plan = Plan(state, now)
    for claim in state.claims.first(LOOKED_AT):
        yield plan.about(claim)


class Plan:
    """One pass over all claims; decisions for older claims count for younger ones."""

    __slots__ = ("_context", "_evicting", "_for_good", "_forecast", "_loader", "_now", "_spoken_for", "_state")

    def __init__(self, state: State, now: Instant) -> None:
        self._state = state
        self._now = now
        self._forecast = MemoryForecast(state)
        self._context = DecisionContext(state, now)
        self._loader = loader_busy_with(state)
        self._for_good: dict[int, MemoryUse] = {}
        self._evicting = EVICTING
        self._spoken_for: set[ModelName] = set()

    def about(self, claim: Claim) -> ClaimDecision:
        forecast = self._forecast
        model, spec = self._state.models[claim.model], self._state.catalog.models[claim.model]
        if error := self._never_fits(model):
            return ClaimDecision(claim, model, spec, Action.REFUSE, error=error)
        if older := forecast.promised_instead_of(model.name):
            return ClaimDecision(claim, model, spec, Action.BEHIND, (older,))
        own = forecast.own(model)
        if not forecast.then.admits(model, own):
            return self._without_memory(claim, model, spec, own)
        if not forecast.now.admits(model, own):
            return self._leaving(claim, model, spec)
        forecast.start(model)
        self._loader = self._loader or model
        return ClaimDecision(claim, model, spec, Action.START)

    def _leaving(self, claim: Claim, model: ModelState, spec: ModelSpec) -> ClaimDecision:
        self._forecast.promise(model)
        if self._loader is None and self._only_stops(model):
            self._loader = model
        return ClaimDecision(claim, model, spec, Action.LEAVING)

    def _only_stops(self, wanted: ModelState) -> bool:
        """Does it only wait for stops? Then it counts as the next load."""
        return not any(is_in_the_way(self._state, each, wanted) for each in self._forecast.draining)

    def _never_fits(self, wanted: ModelState) -> NeverFits | NoMemory | None:
        """Could it load if every model left that may? Checked before anything is evicted."""
        group = self._state.catalog.groups.of(wanted.name)
        staying_for_good = self._for_good.get(id(group))
        if staying_for_good is None:
            protected = [model for model in self._forecast.staying if is_protected(self._state, wanted.name, model)]
            staying_for_good = MemoryUse(self._state, protected)
            self._for_good[id(group)] = staying_for_good
        return None if staying_for_good.admits(wanted) else refusal(self._state, wanted, staying_for_good.models)

    def _without_memory(self, claim: Claim, model: ModelState, spec: ModelSpec, own: Missing) -> ClaimDecision:
        missing = self._forecast.then.lacks(model, own)
        candidates = self._candidates(claim, spec, missing) if self._evicting else []
        if not candidates:
            return ClaimDecision(claim, model, spec, Action.BEHIND)
        self._evicting -= 1
        free, holds = self._who_may_leave(claim, candidates)
        if self._loader is not None:
            return self._wait_for_loader(claim, model, spec, missing, free, holds)
        victims = self._victims(spec, missing, free)
        if victims is None:
            self._spoken_for.update(each.resident.name for each in holds)
            return ClaimDecision(claim, model, spec, Action.HELD if holds else Action.BEHIND, holds=holds)
        sleep_levels = self._sleep_levels(model, victims)
        self._forecast.evict(victims, sleep_levels)
        self._forecast.promise(model)
        if not any(victim.leases for victim in victims):
            self._loader = model
        return ClaimDecision(claim, model, spec, Action.EVICT, victims, sleep_levels=sleep_levels)

    def _wait_for_loader(
        self, claim: Claim, model: ModelState, spec: ModelSpec, missing: Missing, free: Models, holds: Holds
    ) -> ClaimDecision:
        assert self._loader is not None
        # When the claim is due, no younger load in its way may start, or loading would never be possible for it.
        loading = [each.resident for each in holds if each.keeps is ProtectedBy.LOADING]
        overdue = [resident for resident in loading if self._is_due(claim, resident)]
        if self._victims(spec, missing, [*free, *overdue]) is not None:
            self._forecast.promise(model)
        return ClaimDecision(claim, model, spec, Action.LOADER, (self._loader,))

    def _is_due(self, claim: Claim, resident: ModelState) -> bool:
        return begin(claim, resident) + turn_s(self._context, claim.model, resident) <= self._now

    def _candidates(self, claim: Claim, spec: ModelSpec, missing: Missing) -> Models:
        """Residents and sleepers whose memory would help, except those that an older claim waits for."""
        pushed = self._pushed_out(spec)
        there = [*self._forecast.staying, *(each for each in self._forecast.asleep if self._may_be_ended(each, claim))]
        return [
            model
            for model in there
            if model.name not in self._spoken_for
            and (not missing.keys().isdisjoint(takes(self._state, model)) or model.name in pushed)
        ]

    def _may_be_ended(self, sleeper: ModelState, claim: Claim) -> bool:
        """No older claim is for this model."""
        its = self._state.claims.of(sleeper.name)
        return its is None or claim < its

    def _sleep_levels(self, wanted: ModelState, victims: tuple[ModelState, ...]) -> dict[ModelName, SleepLevel]:
        """Which victims sleep: as many as fit with what they keep, slowest to load first."""
        sleep_levels: dict[ModelName, SleepLevel] = {}
        able = [each for each in victims if each.phase is Phase.READY]
        for victim in sorted(able, key=lambda each: -self._state.model_stats.load_s(each.name)):
            for level in self._state.sleep_levels(victim):
                if self._forecast.has_sleep_levels(wanted, victims, {**sleep_levels, victim.name: level}):
                    sleep_levels[victim.name] = level
                    break
        return sleep_levels

    def _pushed_out(self, spec: ModelSpec) -> tuple[ModelName, ...]:
        """Models that groups or matrix exclude, among those staying or with promised memory."""
        there = [model.name for model in (*self._forecast.staying, *self._forecast.promised)]
        return self._state.catalog.groups.pushed_out(spec.name, there)

    def _who_may_leave(self, claim: Claim, candidates: Models) -> tuple[Models, Holds]:
        free, holds = [], []
        for resident in candidates:
            held = protection_of(self._context, claim, resident)
            if held is None or held.until <= self._now:
                free.append(resident)
            elif held.keeps is not ProtectedBy.PINNED:
                holds.append(held)
        return free, tuple(holds)

    def _victims(self, spec: ModelSpec, missing: Missing, free: Models) -> tuple[ModelState, ...] | None:
        """The models that the groups exclude, and the cheapest others that free the rest of the missing memory."""
        names = self._pushed_out(spec)
        pushed = [model for model in free if model.name in names]
        if len(pushed) < len(names):
            return None
        for model in pushed:
            given = needs(self._state, model)
            missing = {place: lack - given.get(place, 0) for place, lack in missing.items()}
        missing = {place: lack for place, lack in missing.items() if lack > 0}
        others = choose_victims(self._state, [model for model in free if model not in pushed], missing, self._now)
        return None if others is None else (*pushed, *others)


def loader_busy_with(state: State) -> ModelState | None:
    """A load that no request waits for does not count."""
    return next((model for model in state.in_phase(Phase.LOADING) if state.queue.count(model.name)), None)
