"""Memory by place: what a model needs, what its process holds now, and what it will hold.

Free memory is the limits minus one of two vectors: `holds` of all models now, `will_hold` of all models later.

Only a declared figure refuses a model for good. An estimate or an old measurement is a guess: a model for which it is
too large is started alone, and is refused only while it backs off after that has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.spec import NOTHING, Source
from hotseat.errors import NeverFits, NoMemory
from hotseat.identifiers import ANY_GPU, HOST_MEMORY
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.placement import card_choices, may_need, needs_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import Footprint
    from hotseat.identifiers import Bytes, Place, Seconds
    from hotseat.scheduling.placement import Choices
    from hotseat.scheduling.state import ModelState, State

    Memory: TypeAlias = Mapping[Place, Bytes]

NEVER_FITS_HINT = "Raise the budget, unpin a model or choose a smaller quantisation."
OTHERS_S: Seconds = 30.0
"""Retry-After while other programs use the memory: unknown, but rarely a matter of seconds."""


class Free:
    """What is left of the limits once some memory is taken; negative where the limits are exceeded."""

    __slots__ = ("_left",)

    def __init__(self, state: State, taken: Iterable[Memory]) -> None:
        self._left = dict(state.limits)
        for memory in taken:
            self.take(memory)

    def take(self, memory: Memory) -> None:
        for place, bytes_ in memory.items():
            self._left[place] = self._left.get(place, 0) - bytes_

    def give(self, memory: Memory) -> None:
        self.take({place: -bytes_ for place, bytes_ in memory.items()})

    def lacks(self, memory: Memory) -> dict[Place, Bytes]:
        """How much of this memory is missing, by place; places that lack nothing are left out."""
        left = self._left
        return {
            place: lack for place, bytes_ in memory.items() if bytes_ > 0 and (lack := bytes_ - left.get(place, 0)) > 0
        }

    def left_on(self, places: Iterable[Place]) -> Bytes:
        left = self._left
        return sum([left.get(place, 0) for place in places])

    def exceeded(self) -> dict[Place, Bytes]:
        """By how much the limits are exceeded, by place."""
        return {place: -bytes_ for place, bytes_ in self._left.items() if bytes_ < 0}


def free_now(state: State) -> Free:
    return Free(state, (holds(state, model) for model in state.with_process()))


def free_later(state: State) -> Free:
    """Once every model that loads, leaves or changes its sleep has done so."""
    return Free(state, (will_hold(state, model) for model in state.with_process()))


# The vectors of a model


def holds(state: State, model: ModelState) -> Memory:
    """What its process holds at most. On the way to or from sleep memory moves: the larger figure counts."""
    needed = needs(state, model)
    if model.sleep_level is None or model.phase is Phase.DRAINING:
        return needed
    kept = kept_asleep(state, model, model.sleep_level)
    return kept if model.is_asleep else most_of(needed, kept)


def will_hold(state: State, model: ModelState) -> Memory:
    """What it holds once the move that it makes now has ended: nothing if it has no process or is leaving."""
    if model.sleep_level and (model.phase is Phase.ASLEEP or model.falls_asleep):
        return kept_asleep(state, model, model.sleep_level)
    return NOTHING if model.is_leaving or not model.phase.takes_memory else needs(state, model)


def needs(state: State, model: ModelState) -> Memory:
    """What it needs to serve, on the cards that it has."""
    return needs_on(state, model, model.gpus)


def footprint(model: ModelState) -> Footprint | None:
    """What a model counts as while it is loaded: as declared, else as measured, else as estimated; None: unknown."""
    return model.spec.footprint(model.stats.memory)


def kept_asleep(state: State, model: ModelState, level: SleepLevel) -> Memory:
    """Memory kept asleep: as declared, else as measured, else all of it in RAM (weights kept) or none."""
    budgets = state.catalog.budgets
    if not budgets:
        return NOTHING
    if level.memory is not None:
        return level.memory
    sleep_stats = model.stats.sleep_stats_by_level.get(level.name)
    if sleep_stats is not None and sleep_stats.memory is not None:
        return {place: sleep_stats.memory[place.device] for place in budgets if place.device in sleep_stats.memory}
    if not level.keeps_weights or HOST_MEMORY not in budgets:
        return NOTHING
    return {HOST_MEMORY: sum(needs(state, model).values())}


def may_change_level(state: State, model: ModelState) -> bool:
    """On the way to sleep both figures count, beside all present models."""
    assert model.sleep_level is not None
    return not free_now(state).lacks(beyond(kept_asleep(state, model, model.sleep_level), needs(state, model)))


# Arithmetic


def beyond(memory: Memory, other: Memory) -> dict[Place, Bytes]:
    """What `memory` has more than `other`, by place; negative where it has less."""
    return {place: memory.get(place, 0) - other.get(place, 0) for place in {**memory, **other}}


def most_of(one: Memory, other: Memory) -> dict[Place, Bytes]:
    return {place: max(one.get(place, 0), other.get(place, 0)) for place in {**one, **other}}


def added_up(shares: Iterable[Memory]) -> dict[Place, Bytes]:
    taken: dict[Place, Bytes] = {}
    for share in shares:
        for place, bytes_ in share.items():
            taken[place] = taken.get(place, 0) + bytes_
    return taken


# Models beside each other


def is_in_the_way(state: State, resident: ModelState, wanted: ModelState, gpus: tuple[Place, ...] = ()) -> bool:
    """May `wanted` need memory of `resident`, on these cards or on any that it may get?"""
    if state.catalog.groups.may_push_out(resident.name, wanted.name):
        return True
    wanted_places = needs_on(state, wanted, gpus) if gpus else may_need(state, wanted)
    return not may_need(state, resident).isdisjoint(wanted_places)


def is_protected(state: State, wanted: ModelState, resident: ModelState) -> bool:
    """Pinned models stay, and members of a persistent group, except against their group and what uses the same."""
    if resident.spec.pinned:
        return True
    groups = state.catalog.groups
    group = groups.of(resident.name)
    is_of_others = group is not groups.of(wanted.name) and not groups.both_use(resident.name, wanted.name)
    return group.persistent and is_of_others


def given_alone(state: State, wanted: ModelState, beside: Sequence[ModelState]) -> Choices:
    """What it gets alone of devices for which its guess is too large, by set of cards: all that models that stay leave.

    Empty: it need not be alone, or must not, because its figure is declared or unknown, fits, or nothing is left.
    """
    known, budgets = footprint(wanted), state.catalog.budgets
    if known is None or known.source is Source.DECLARED:
        return {}
    used = added_up(needs(state, each) for each in beside)
    found: dict[tuple[Place, ...], Memory] = {}
    for cards, needed in card_choices(state, wanted).items():
        over = [place for place, size in needed.items() if size and size + used.get(place, 0) > budgets.get(place, 0)]
        if not over:
            return {}
        given = {place: state.limits.get(place, 0) - used.get(place, 0) for place in over}
        if min(given.values()) > 0:
            found[cards] = given
    return found


def why_alone(model: ModelState) -> str:
    known, given = footprint(model), model.given or NOTHING
    size = sum(size for place, size in known.memory.items() if place in (*given, ANY_GPU)) if known else 0
    left = f"{in_gib(sum(given.values()))} left on {' and '.join(map(str, given))}"
    return f"alone because it needs {in_gib(size)} ({known.source.value if known else ''}), more than the {left}"


def refusal(
    state: State, wanted: ModelState, beside: Sequence[ModelState], choices: Choices
) -> NeverFits | NoMemory | None:
    """Why it fits on no set of cards beside models that stay for good: never, or not at present. None: it fits."""
    free = Free(state, (needs(state, each) for each in beside))
    if all(free.lacks(needed) for needed in choices.values()):  # mostly one look, because the first set suffices
        first = next(iter(choices.values()))
        place = next(iter(free.lacks(first)))
        return _lack(state, wanted, place, first[place], beside)
    excluded = state.catalog.groups.pushed_out(wanted.name, [each.name for each in beside])
    if not excluded:
        return None
    pinned = f"it may not run together with {excluded[0]}, which is pinned"
    return NeverFits(f"{wanted.name} never fits: {pinned}. {NEVER_FITS_HINT}")


def _lack(
    state: State, model: ModelState, place: Place, bytes_: Bytes, beside: Sequence[ModelState]
) -> NeverFits | NoMemory:
    name, known, budget = model.name, footprint(model), state.catalog.budgets.get(place, 0)
    used = sum(needs(state, each).get(place, 0) for each in beside)
    declared = sum(needs(state, each).get(place, 0) for each in beside if each.spec.memory is not None)
    if known is None:
        why = f"its memory is unknown, so it takes all of {place}, of which"
        if used:
            pinned = f"{in_gib(used)} is reserved by pinned models. Declare `memory` for {name}."
            return NeverFits(f"{name} never fits: {why} {pinned}")
        text = "other programs leave nothing. Try again when they have finished, or declare `memory` for"
        return NoMemory(f"{name} does not fit right now: {why} {text} {name}.", retry_after=OTHERS_S)
    source = "" if known.source is Source.DECLARED else f" ({known.source.value})"
    needed = f"it needs {in_gib(bytes_)}{source}, but the budget of {place} is {in_gib(budget)}"
    pinned = f", of which {in_gib(used)} is reserved by pinned models" if used else ""
    if declared >= budget or (bytes_ + declared > budget and not source):
        return NeverFits(f"{name} never fits: {needed}{pinned}. {NEVER_FITS_HINT}")
    if state.limits[place] < budget:
        hint = (
            f", and other programs leave only {in_gib(state.limits[place])} of it. Try again when they have finished."
        )
    else:
        hint = ", not all of it declared. Try again later, declare `memory` for these, or unpin one."
    return NoMemory(f"{name} does not fit right now: {needed}{pinned}{hint}", retry_after=OTHERS_S)


def in_gib(bytes_: Bytes) -> str:
    return f"{bytes_ / (1 << 30):.3g} GiB"
