"""Decide about each claim, oldest first, from the state alone; settle.py carries the decisions out.

The same computation explains waiting: what cannot be done for a claim now is its reason. Memory being freed for a claim
counts as taken, so that no younger claim gets it. No earlier decision is stored: the phases show what is in progress.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hotseat.catalog.spec import NOTHING
from hotseat.scheduling.eviction import Leaving, options_for
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.loss import NEVER, Because, Loss, Losses
from hotseat.scheduling.memory_fit import (
    added_up,
    free_later,
    free_now,
    given_alone,
    holds,
    is_in_the_way,
    is_protected,
    kept_asleep,
    refusal,
    will_hold,
)
from hotseat.scheduling.placement import card_choices, choices_at_start
from hotseat.scheduling.queue import LOOKED_AT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.errors import NeverFits, NoMemory
    from hotseat.identifiers import Bytes, Instant, ModelName, Place
    from hotseat.scheduling.eviction import Eviction, Option
    from hotseat.scheduling.queue import Claim
    from hotseat.scheduling.state import ModelState, State

    Victims: TypeAlias = tuple[ModelState, ...]

EVICTING = 4
"""Only this many claims may choose victims: older claims come first anyway."""


class Action(Enum):
    REFUSE = "refuse"
    """It can never fit."""
    RESTART = "restart"
    """It sleeps on cards where it can never wake, and fits on others: its server ends, and its claim waits for that."""
    START = "start"
    EVICT = "evict"
    LEAVING = "leaving"
    """Its memory is being freed: models drain or stop for it."""
    LOADER = "loader"
    """Another load is in progress. Nothing is evicted meanwhile, so that freed memory can be used at once."""
    HELD = "held"
    """Its memory is in use, at least until `look_again`."""
    BEHIND = "behind"
    """An older claim comes first."""


class ClaimDecision(NamedTuple):
    """What to do about a claim now, or what it waits for."""

    claim: Claim
    model: ModelState
    action: Action
    others: tuple[ModelState, ...] = ()
    """The models that the action concerns: victims, the one loading or the one ahead."""
    staying: tuple[Loss, ...] = ()
    """The models that stay for now although their memory is needed."""
    sleep_levels: Mapping[ModelName, SleepLevel] = NOTHING
    """Sleep level of each victim that sleeps; other victims stop."""
    gpus: tuple[Place, ...] = ()
    """The cards that it starts on, or that are freed for it; empty: its server decides."""
    given: Mapping[Place, Bytes] | None = None
    """What it gets of devices for which its guess is too large; None: it is not started alone."""
    error: NeverFits | NoMemory | None = None
    excluded: Collection[ModelName] = ()
    """Victims that a group or the matrix excludes; the others leave for their memory."""

    @property
    def look_again(self) -> Instant:
        return min((each.until for each in self.staying), default=NEVER)


def decisions(state: State, now: Instant) -> Iterator[ClaimDecision]:
    plan = Plan(state, now)
    for claim in state.claims.first(LOOKED_AT):
        yield plan.decide(claim)


class Plan:
    """One pass over all claims; decisions for older claims count for younger ones."""

    def __init__(self, state: State, now: Instant) -> None:
        present = state.with_process()
        state.card_choices.clear()
        self._state, self._now = state, now
        self._losses = Losses(state, now, state.claims.first(LOOKED_AT))
        self._free_now, self._free_later = free_now(state), free_later(state)
        self._running = [model.name for model in present if not model.is_asleep]
        self._asleep = [model.name for model in present if model.is_asleep]
        self._staying = {model.name: model for model in present if not model.is_leaving}
        self._held = {model.name: holds(state, model) for model in present}
        self._draining = [model for model in present if model.is_leaving and model.leases]
        self._promised: list[ModelState] = []
        self._evicted: set[ModelName] = set()
        self._reserved: set[ModelName] = set()
        """Residents that an older claim waits for."""
        self._given_back: list[Mapping[Place, Bytes]] = []
        """What promised models that sleep give back when they wake, which is after the victims have left."""
        self._loader = loader_busy_with(state)
        self._evicting = EVICTING

    def decide(self, claim: Claim) -> ClaimDecision:
        wanted = self._state.models[claim.model]
        protected = self._protected(wanted)  # whether it can load is checked before anything is evicted
        choices, alone = card_choices(self._state, wanted), given_alone(self._state, wanted, protected)
        if alone:
            choices = {cards: {**choices[cards], **given} for cards, given in alone.items()}
        error = refusal(self._state, wanted, protected, choices)
        if wanted.phase is Phase.ASLEEP and (error or alone):
            elsewhere = choices_at_start(self._state, wanted)
            if refusal(self._state, wanted, protected, elsewhere) is None:
                return ClaimDecision(claim, wanted, Action.RESTART)
        if error:
            return ClaimDecision(claim, wanted, Action.REFUSE, error=error)
        if older := self._promised_instead_of(wanted):
            return ClaimDecision(claim, wanted, Action.BEHIND, (older,))
        if wanted.name in self._evicted:  # it slept, and an older claim gets its memory
            return ClaimDecision(claim, wanted, Action.BEHIND)
        options, excluded = options_for(self._state, wanted, choices, self._free_later), self._excluded_later(wanted)
        fitting = [] if excluded else [option for option in options if not option.missing]
        if not fitting:
            return self._free_memory(claim, wanted, options, excluded)
        option = min(fitting, key=lambda each: (bool(self._free_now.lacks(each.more)), each.left))
        self._promise(wanted, option)
        if self._free_now.lacks(option.more) or self._excluded(wanted, self._running, self._asleep):
            return self._leaving(claim, wanted, option)
        self._free_now.take({place: max(0, bytes_) for place, bytes_ in option.more.items()})
        self._running.append(wanted.name)
        self._loader = self._loader or wanted
        return ClaimDecision(claim, wanted, Action.START, gpus=option.gpus, given=alone.get(option.gpus))

    def _leaving(self, claim: Claim, wanted: ModelState, option: Option) -> ClaimDecision:
        """If it only waits for stops, it counts as the next load."""
        if self._loader is None and not self._waits_for_drains(wanted, option):
            self._loader = wanted
        return ClaimDecision(claim, wanted, Action.LEAVING, gpus=option.gpus)

    def _waits_for_drains(self, wanted: ModelState, option: Option) -> bool:
        return any(is_in_the_way(self._state, each, wanted, option.gpus) for each in self._draining)

    def _protected(self, wanted: ModelState) -> list[ModelState]:
        """Models that never leave for it."""
        awake = (each for each in self._staying.values() if each.phase is not Phase.ASLEEP)
        return [each for each in awake if is_protected(self._state, wanted, each)]

    def _promised_instead_of(self, wanted: ModelState) -> ModelState | None:
        """The model with promised memory that may not run beside this one."""
        must_leave, name = self._state.catalog.groups.must_leave, wanted.name
        clashing = (each for each in self._promised if must_leave(each.name, name) or must_leave(name, each.name))
        return next(clashing, None)

    def _promise(self, wanted: ModelState, option: Option) -> None:
        self._free_later.take(option.more)
        self._given_back.append({place: -bytes_ for place, bytes_ in option.more.items() if bytes_ < 0})
        self._staying.pop(wanted.name, None)
        self._promised.append(wanted)

    # Freeing memory

    def _free_memory(
        self, claim: Claim, wanted: ModelState, options: Sequence[Option], excluded: set[ModelName]
    ) -> ClaimDecision:
        candidates = self._candidates(claim, options, excluded) if self._evicting else []
        if not candidates:
            return ClaimDecision(claim, wanted, Action.BEHIND)
        self._evicting -= 1
        losses = [self._losses.of(claim, each) for each in candidates]
        leave = [each for each in losses if each.until <= self._now]
        stay = [each for each in losses if each.until > self._now and each.because is not Because.PINNED]
        if self._loader is not None:
            overdue = [each for each in stay if self._keeps_loading(claim, each)]
            # When the claim is due, no younger load in its way may start, or loading would never be possible for it.
            if eviction := Leaving([*leave, *overdue], excluded, self._held).cheapest(options):
                self._promise(wanted, eviction.option)
            return ClaimDecision(claim, wanted, Action.LOADER, (self._loader,))
        eviction = Leaving(leave, excluded, self._held).cheapest(options)
        if eviction is not None:
            return self._evict(claim, wanted, eviction, excluded)
        return self._wait(claim, wanted, self._sufficient(options, losses, excluded), stay)

    def _keeps_loading(self, claim: Claim, loss: Loss) -> bool:
        return loss.because is Because.LOADING and self._losses.is_overdue(claim, loss.resident)

    def _candidates(self, claim: Claim, options: Iterable[Option], excluded: set[ModelName]) -> list[ModelState]:
        """Residents and sleepers whose memory would help, except those that an older claim waits for."""
        missing = frozenset().union(*(option.missing for option in options))
        return [
            model
            for model in self._staying.values()
            if model.name not in self._reserved
            and (model.name in excluded or not missing.isdisjoint(self._held[model.name]))
            and not (model.phase is Phase.ASLEEP and self._is_claimed_earlier(model, claim))
        ]

    def _sufficient(self, options: Sequence[Option], losses: Sequence[Loss], excluded: set[ModelName]) -> list[Option]:
        """The options that could be had if every candidate left; a single one could, or it would be refused."""
        if len(options) == 1:
            return [*options]
        able = Leaving([each for each in losses if each.because is not Because.PINNED], excluded, self._held)
        return [each for each in options if able.are_enough(each)]

    def _is_claimed_earlier(self, sleeper: ModelState, claim: Claim) -> bool:
        its = self._state.claims.of(sleeper.name)
        return its is not None and its <= claim

    def _wait(self, claim: Claim, wanted: ModelState, options: Iterable[Option], stay: Sequence[Loss]) -> ClaimDecision:
        """Wait for the option whose memory is free first; younger claims leave its models alone."""
        ways = [[each for each in stay if option.is_helped_by(self._held[each.resident.name])] for option in options]
        first = min((way for way in ways if way), key=lambda way: max(each.until for each in way), default=stay)
        self._reserved.update(each.resident.name for each in first)
        return ClaimDecision(claim, wanted, Action.HELD if first else Action.BEHIND, staying=tuple(first))

    def _evict(self, claim: Claim, wanted: ModelState, eviction: Eviction, excluded: set[ModelName]) -> ClaimDecision:
        for victim in eviction.victims:
            del self._staying[victim.name]
            self._evicted.add(victim.name)
            self._free_later.give(will_hold(self._state, victim))
        self._promise(wanted, eviction.option)
        levels = self._sleep_levels(wanted, eviction.victims)
        drained = [victim for victim in eviction.victims if victim.leases]
        self._draining += drained
        self._loader = None if drained else wanted
        gpus = eviction.option.gpus
        return ClaimDecision(
            claim, wanted, Action.EVICT, eviction.victims, sleep_levels=levels, gpus=gpus, excluded=excluded
        )

    def _sleep_levels(self, wanted: ModelState, victims: Victims) -> dict[ModelName, SleepLevel]:
        """Which victims sleep: as many as fit with what they keep, slowest to load first."""
        chosen: dict[ModelName, SleepLevel] = {}
        both_use = self._state.catalog.groups.both_use
        able = [each for each in victims if each.phase is Phase.READY and not both_use(each.name, wanted.name)]
        for victim in sorted(able, key=lambda each: -self._state.model_stats.load_s(each.name)):
            for level in self._state.sleep_levels(victim):
                kept = kept_asleep(self._state, victim, level)
                if not self._free_later.lacks(added_up((kept, *self._given_back))):
                    self._free_later.take(kept)
                    chosen[victim.name] = level
                    break
        return chosen

    # Groups

    def _excluded_later(self, wanted: ModelState) -> set[ModelName]:
        asleep = [each.name for each in self._staying.values() if each.phase is Phase.ASLEEP]
        awake = [name for name in self._staying if name not in asleep]
        return self._excluded(wanted, [*awake, *(each.name for each in self._promised)], asleep)

    def _excluded(self, wanted: ModelState, awake: Iterable[ModelName], asleep: Iterable[ModelName]) -> set[ModelName]:
        """A server that sleeps is in nobody's way, except where it still uses what only one process can."""
        groups = self._state.catalog.groups
        return {
            *groups.pushed_out(wanted.name, awake),
            *(name for name in asleep if groups.both_use(name, wanted.name)),
        }


def loader_busy_with(state: State) -> ModelState | None:
    """A load that no request waits for does not count."""
    return next((model for model in state.in_phase(Phase.LOADING) if state.queue.count(model.name)), None)
