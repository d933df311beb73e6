"""Does a model fit? Groups and matrix say what must leave, budgets limit memory. Only this module compares memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING, Source
from hotseat.errors import NeverFits, NoMemory
from hotseat.identifiers import HOST_MEMORY
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.groups import Group
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import Footprint
    from hotseat.identifiers import Bytes, ModelName, Place, Seconds
    from hotseat.scheduling.state import ModelState, State

NEVER_FITS_HINT = "Raise the budget, unpin a model or choose a smaller quantisation."
OTHERS_S: Seconds = 30.0
"""Retry-After while other programs use the memory: unknown, but rarely a matter of seconds."""


class MemoryUse:
    """The memory and groups of a set of models, added up once because every claim asks for them."""

    __slots__ = ("_groups", "_state", "_taken", "models")

    def __init__(self, state: State, models: Iterable[ModelState]) -> None:
        self._state = state
        self._groups: dict[int, Group] = {}
        self._taken: dict[Place, Bytes] = {}
        self.models: list[ModelState] = []
        for model in models:
            self.add(model)

    def add(self, model: ModelState) -> None:
        group = self._state.catalog.groups.of(model.name)
        self._groups[id(group)] = group
        self.models.append(model)
        for place, bytes_ in needs(self._state, model).items():
            self._taken[place] = self._taken.get(place, 0) + bytes_

    def hold(self, memory: Mapping[Place, Bytes]) -> None:
        """Add memory outside of groups: a sleeping model does not count for its group."""
        for place, bytes_ in memory.items():
            self._taken[place] = self._taken.get(place, 0) + bytes_

    def fits(self, memory: Mapping[Place, Bytes]) -> bool:
        limits, taken = self._state.limits, self._taken
        return all(taken.get(place, 0) + bytes_ <= limits.get(place, 0) for place, bytes_ in memory.items())

    def admits(self, model: ModelState, own: Mapping[Place, Bytes] = NOTHING) -> bool:
        """May it load beside them? `own` is the memory it holds asleep."""
        return not self._pushes_out(model.name) and not self.lacks(model, own)

    def _pushes_out(self, name: ModelName) -> bool:
        groups = self._state.catalog.groups
        if groups.matrix is not None:
            return bool(groups.pushed_out(name, [each.name for each in self.models]))
        ours = groups.of(name)
        return any(ours.pushes_out(group) for group in self._groups.values())

    def lacks(self, model: ModelState, own: Mapping[Place, Bytes] = NOTHING) -> dict[Place, Bytes]:
        """Missing memory by place; places that lack nothing are left out."""
        limits, taken = self._state.limits, self._taken
        missing = {}
        for place, bytes_ in needs(self._state, model).items():
            lack = bytes_ + taken.get(place, 0) - own.get(place, 0) - limits.get(place, 0)
            if lack > 0:
                missing[place] = lack
        return missing

    def excess(self) -> dict[Place, Bytes]:
        """Memory use above the limit, by place."""
        limits = self._state.limits
        over = {place: bytes_ - limits.get(place, 0) for place, bytes_ in self._taken.items()}
        return {place: bytes_ for place, bytes_ in over.items() if bytes_ > 0}


class MemoryForecast:
    """Memory use now, and later: once leaving models have left and models with promised memory have loaded."""

    __slots__ = (
        "_kept",
        "_promised_groups",
        "_state",
        "_then",
        "asleep",
        "draining",
        "leaving",
        "now",
        "promised",
        "staying",
    )

    def __init__(self, state: State) -> None:
        present = state.with_process()
        self._state = state
        self.leaving = [model for model in present if model.is_leaving]
        self.draining = [model for model in self.leaving if model.leases]
        self.staying = [model for model in present if not model.is_leaving and model.phase is not Phase.ASLEEP]
        self.asleep = [model for model in present if model.phase is Phase.ASLEEP]
        self.promised: list[ModelState] = []
        self._kept = [
            kept_asleep(state, each, each.sleep_level)
            for each in self.leaving
            if each.sleep_level and each.falls_asleep
        ]
        """What leaving models keep asleep."""
        self._promised_groups: dict[int, tuple[Group, ModelState]] = {}
        self.now = MemoryUse(state, (model for model in present if not model.is_asleep))
        for model in present:
            if model.sleep_level:
                self.now.hold(self._beyond_needs(model))
        self._then: MemoryUse | None = None

    def _beyond_needs(self, model: ModelState) -> Mapping[Place, Bytes]:
        """What the process holds beyond what it needs to serve."""
        taken = takes(self._state, model)
        if model.is_asleep:
            return taken
        needed = needs(self._state, model)
        return {place: bytes_ - needed.get(place, 0) for place, bytes_ in taken.items()}

    @property
    def then(self) -> MemoryUse:
        if self._then is None:
            self._then = MemoryUse(self._state, [*self.staying, *self.promised])
            for kept in [*self._kept, *(takes(self._state, model) for model in self.asleep)]:
                self._then.hold(kept)
        return self._then

    def own(self, model: ModelState) -> Mapping[Place, Bytes]:
        """What a model that is to be started already holds: its memory asleep."""
        return takes(self._state, model) if model.phase is Phase.ASLEEP else NOTHING

    def start(self, model: ModelState) -> None:
        if model.phase is Phase.ASLEEP:
            held, needed = takes(self._state, model), needs(self._state, model)
            self.now.hold({place: -min(bytes_, needed.get(place, 0)) for place, bytes_ in held.items()})
        self.now.add(model)
        self.promise(model)

    def promise(self, model: ModelState) -> None:
        group = self._state.catalog.groups.of(model.name)
        self.promised.append(model)
        self._promised_groups.setdefault(id(group), (group, model))
        if model in self.asleep:
            self.asleep.remove(model)
            self._then = None
        else:
            self.then.add(model)

    def promised_instead_of(self, name: ModelName) -> ModelState | None:
        """The model with promised memory that may not run beside this one."""
        groups, ours = self._state.catalog.groups, self._state.catalog.groups.of(name)
        if groups.matrix is not None:
            return next((model for model in self.promised if groups.must_leave(model.name, name)), None)
        for group, model in self._promised_groups.values():
            if ours.pushes_out(group) or group.pushes_out(ours):
                return model
        return None

    def evict(self, victims: Sequence[ModelState], sleep_levels: Mapping[ModelName, SleepLevel] = NOTHING) -> None:
        gone = {victim.name for victim in victims}
        self.staying = [model for model in self.staying if model.name not in gone]
        self.asleep = [model for model in self.asleep if model.name not in gone]
        self._kept += [
            kept_asleep(self._state, each, sleep_levels[each.name]) for each in victims if each.name in sleep_levels
        ]
        self.leaving += victims
        self.draining += [victim for victim in victims if victim.leases]
        self._then = None

    def has_sleep_levels(
        self, wanted: ModelState, victims: Sequence[ModelState], sleep_levels: Mapping[ModelName, SleepLevel]
    ) -> bool:
        """Once the victims have left, do `wanted` and what they keep asleep fit?"""
        gone = {wanted.name, *(victim.name for victim in victims)}
        stay = [model for model in [*self.staying, *self.promised] if model.name not in gone]
        then = MemoryUse(self._state, [*stay, wanted])
        sleeping = [takes(self._state, model) for model in self.asleep if model.name not in gone]
        kept = [
            kept_asleep(self._state, each, sleep_levels[each.name]) for each in victims if each.name in sleep_levels
        ]
        for memory in [*self._kept, *sleeping, *kept]:
            then.hold(memory)
        concerned = {**needs(self._state, wanted), **added_up(kept)}
        return then.excess().keys().isdisjoint(concerned)

    def in_the_way(self, wanted: ModelState) -> tuple[ModelState, ...]:
        """Leaving models that it waits for."""
        return tuple(model for model in self.leaving if is_in_the_way(self._state, model, wanted))


def fits_beside(state: State, wanted: ModelState, resident: ModelState) -> bool:
    return MemoryUse(state, (resident,)).admits(wanted)


def is_in_the_way(state: State, resident: ModelState, wanted: ModelState) -> bool:
    """May `wanted` need memory of `resident`?"""
    if state.catalog.groups.may_push_out(resident.name, wanted.name):
        return True
    return not needs(state, resident).keys().isdisjoint(needs(state, wanted))


def within_budget(state: State, shares: Iterable[Mapping[Place, Bytes]]) -> bool:
    taken, budgets = added_up(shares), state.catalog.budgets
    return all(bytes_ <= budgets.get(place, 0) for place, bytes_ in taken.items())


def added_up(shares: Iterable[Mapping[Place, Bytes]]) -> dict[Place, Bytes]:
    taken: dict[Place, Bytes] = {}
    for share in shares:
        for place, bytes_ in share.items():
            taken[place] = taken.get(place, 0) + bytes_
    return taken


def takes(state: State, model: ModelState) -> Mapping[Place, Bytes]:
    """What its process counts as now. On the way to or from sleep memory moves: the larger figure counts."""
    needed = needs(state, model)
    if model.sleep_level is None or model.phase is Phase.DRAINING:
        return needed
    kept = kept_asleep(state, model, model.sleep_level)
    return kept if model.is_asleep else most_of(needed, kept)


def may_change_level(state: State, model: ModelState) -> bool:
    """On the way to sleep both figures count, beside all present models."""
    assert model.sleep_level is not None
    kept, needed = kept_asleep(state, model, model.sleep_level), needs(state, model)
    more = {place: bytes_ - needed.get(place, 0) for place, bytes_ in kept.items() if bytes_ > needed.get(place, 0)}
    return MemoryForecast(state).now.fits(more)


def kept_asleep(state: State, model: ModelState, level: SleepLevel) -> Mapping[Place, Bytes]:
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


def needs(state: State, model: ModelState) -> Mapping[Place, Bytes]:
    """Memory by place: none without budgets, a whole device if unknown."""
    if not state.catalog.budgets:
        return NOTHING
    if model.spec.memory is not None:  # first, because every comparison asks
        return model.spec.memory
    known = footprint(model)
    if known is not None:
        return known.memory
    first = next(iter(state.catalog.budgets))
    return {first: state.limits[first]}


def footprint(model: ModelState) -> Footprint | None:
    """What a model counts as while it is loaded: as declared, else as measured, else as estimated; None: unknown."""
    return model.spec.footprint(model.stats.memory)


def most_of(one: Mapping[Place, Bytes], other: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
    return {place: max(one.get(place, 0), other.get(place, 0)) for place in {**one, **other}}


def refusal(state: State, model: ModelState, beside: Sequence[ModelState]) -> NeverFits | NoMemory:
    """Why it does not fit beside models that stay: it never fits, or not at present."""
    taken = added_up(needs(state, each) for each in beside)
    for place, bytes_ in needs(state, model).items():
        used, limit = taken.get(place, 0), state.limits.get(place, 0)
        if bytes_ + used > limit:
            return _lack(state, model, place, used)
    neighbour = state.catalog.groups.pushed_out(model.name, [each.name for each in beside])[0]
    return NeverFits(
        f"{model.name} never fits: it may not run together with {neighbour}, which is pinned. {NEVER_FITS_HINT}"
    )


def _lack(state: State, model: ModelState, place: Place, used: Bytes) -> NeverFits | NoMemory:
    name, known, budget = model.name, footprint(model), state.catalog.budgets.get(place, 0)
    if known is None:
        return NeverFits(
            f"{name} never fits: its memory is unknown, so it takes all of {place}, of which {in_gib(used)} is"
            f" reserved by pinned models. Declare `memory` for {name}."
        )
    bytes_, source = known.memory[place], "" if known.source is Source.DECLARED else f" ({known.source.value})"
    needed = f"it needs {in_gib(bytes_)}{source}, but the budget of {place} is {in_gib(budget)}"
    pinned = f", of which {in_gib(used)} is reserved by pinned models" if used else ""
    if bytes_ + used > budget:
        return NeverFits(f"{name} never fits: {needed}{pinned}. {NEVER_FITS_HINT}")
    left = f", and other programs leave only {in_gib(state.limits[place])} of it"
    text = f"{name} does not fit right now: {needed}{pinned}{left}. Try again when they have finished."
    return NoMemory(text, retry_after=OTHERS_S)


def in_gib(bytes_: Bytes) -> str:
    return f"{bytes_ / (1 << 30):.3g} GiB"
