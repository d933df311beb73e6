"""Does a model fit? Groups and matrix say what must leave, budgets limit memory. Only this module compares memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.errors import NeverFits, NoMemory
from hotseat.identifiers import HOST_MEMORY
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.groups import Group
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, ModelName, Place, Seconds
    from hotseat.scheduling.state import ModelState, State

NEVER_FITS_HINT = "Raise the budget, unpin a model or choose a smaller quantisation."
OTHERS_S: Seconds = 30.0
"""Retry-After while other programs use the memory: unknown, but rarely a matter of seconds."""


class MemoryUse:
    """The memory and groups of a set of models, added up once because every claim asks for them."""

    __slots__ = ("_catalog", "_groups", "_taken", "models")

    def __init__(self, catalog: Catalog, models: Iterable[ModelSpec]) -> None:
        self._catalog = catalog
        self._groups: dict[int, Group] = {}
        self._taken: dict[Place, Bytes] = {}
        self.models: list[ModelSpec] = []
        for spec in models:
            self.add(spec)

    def add(self, spec: ModelSpec) -> None:
        group = self._catalog.groups.of(spec.name)
        self._groups[id(group)] = group
        self.models.append(spec)
        for place, bytes_ in needs(spec, self._catalog).items():
            self._taken[place] = self._taken.get(place, 0) + bytes_

    def hold(self, memory: Mapping[Place, Bytes]) -> None:
        """Add memory outside of groups: a sleeping model does not count for its group."""
        for place, bytes_ in memory.items():
            self._taken[place] = self._taken.get(place, 0) + bytes_

    def fits(self, memory: Mapping[Place, Bytes]) -> bool:
        limits, taken = self._catalog.limits, self._taken
        return all(taken.get(place, 0) + bytes_ <= limits.get(place, 0) for place, bytes_ in memory.items())

    def admits(self, spec: ModelSpec, own: Mapping[Place, Bytes] = NOTHING) -> bool:
        """May it load beside them? `own` is the memory it holds asleep."""
        return not self._pushes_out(spec) and not self.lacks(spec, own)

    def _pushes_out(self, spec: ModelSpec) -> bool:
        groups = self._catalog.groups
        if groups.matrix is not None:
            return bool(groups.pushed_out(spec.name, [each.name for each in self.models]))
        ours = groups.of(spec.name)
        return any(ours.pushes_out(group) for group in self._groups.values())

    def lacks(self, spec: ModelSpec, own: Mapping[Place, Bytes] = NOTHING) -> dict[Place, Bytes]:
        """Missing memory by place; places that lack nothing are left out."""
        limits, taken = self._catalog.limits, self._taken
        missing = {}
        for place, bytes_ in needs(spec, self._catalog).items():
            lack = bytes_ + taken.get(place, 0) - own.get(place, 0) - limits.get(place, 0)
            if lack > 0:
                missing[place] = lack
        return missing

    def excess(self) -> dict[Place, Bytes]:
        """Memory use above the limit, by place."""
        limits = self._catalog.limits
        over = {place: bytes_ - limits.get(place, 0) for place, bytes_ in self._taken.items()}
        return {place: bytes_ for place, bytes_ in over.items() if bytes_ > 0}


class MemoryForecast:
    """Memory use now, and later: once leaving models have left and models with promised memory have loaded."""

    __slots__ = (
        "_kept",
        "_promised_groups",
        "_then",
        "asleep",
        "catalog",
        "draining",
        "leaving",
        "now",
        "promised",
        "staying",
    )

    def __init__(self, state: State) -> None:
        present = state.with_process()
        self.catalog = state.catalog
        self.leaving = [model for model in present if model.is_leaving]
        self.draining = [model for model in self.leaving if model.leases]
        self.staying = [model for model in present if not model.is_leaving and model.phase is not Phase.ASLEEP]
        self.asleep = [model for model in present if model.phase is Phase.ASLEEP]
        self.promised: list[ModelState] = []
        self._kept = [
            kept_asleep(each, each.sleep_level, self.catalog)
            for each in self.leaving
            if each.sleep_level and each.falls_asleep
        ]
        """What leaving models keep asleep."""
        self._promised_groups: dict[int, tuple[Group, ModelState]] = {}
        self.now = MemoryUse(self.catalog, (model.spec for model in present if not model.is_asleep))
        for model in present:
            if model.sleep_level:
                self.now.hold(self._beyond_needs(model))
        self._then: MemoryUse | None = None

    def _beyond_needs(self, model: ModelState) -> Mapping[Place, Bytes]:
        """What the process holds beyond what it needs to serve."""
        taken = takes(model, self.catalog)
        if model.is_asleep:
            return taken
        needed = needs(model.spec, self.catalog)
        return {place: bytes_ - needed.get(place, 0) for place, bytes_ in taken.items()}

    @property
    def then(self) -> MemoryUse:
        if self._then is None:
            self._then = MemoryUse(self.catalog, (model.spec for model in [*self.staying, *self.promised]))
            for kept in [*self._kept, *(takes(model, self.catalog) for model in self.asleep)]:
                self._then.hold(kept)
        return self._then

    def own(self, model: ModelState) -> Mapping[Place, Bytes]:
        """What a model that is to be started already holds: its memory asleep."""
        return takes(model, self.catalog) if model.phase is Phase.ASLEEP else NOTHING

    def start(self, model: ModelState, spec: ModelSpec) -> None:
        if model.phase is Phase.ASLEEP:
            held, needed = takes(model, self.catalog), needs(spec, self.catalog)
            self.now.hold({place: -min(bytes_, needed.get(place, 0)) for place, bytes_ in held.items()})
        self.now.add(spec)
        self.promise(model, spec)

    def promise(self, model: ModelState, spec: ModelSpec) -> None:
        group = self.catalog.groups.of(spec.name)
        self.promised.append(model)
        self._promised_groups.setdefault(id(group), (group, model))
        if model in self.asleep:
            self.asleep.remove(model)
            self._then = None
        else:
            self.then.add(spec)

    def promised_instead_of(self, spec: ModelSpec) -> ModelState | None:
        """The model with promised memory that may not run beside this one."""
        groups, ours = self.catalog.groups, self.catalog.groups.of(spec.name)
        if groups.matrix is not None:
            return next((model for model in self.promised if groups.must_leave(model.name, spec.name)), None)
        for group, model in self._promised_groups.values():
            if ours.pushes_out(group) or group.pushes_out(ours):
                return model
        return None

    def evict(self, victims: Sequence[ModelState], sleep_levels: Mapping[ModelName, SleepLevel] = NOTHING) -> None:
        gone = {victim.name for victim in victims}
        self.staying = [model for model in self.staying if model.name not in gone]
        self.asleep = [model for model in self.asleep if model.name not in gone]
        self._kept += [
            kept_asleep(each, sleep_levels[each.name], self.catalog) for each in victims if each.name in sleep_levels
        ]
        self.leaving += victims
        self.draining += [victim for victim in victims if victim.leases]
        self._then = None

    def has_sleep_levels(
        self, wanted: ModelState, victims: Sequence[ModelState], sleep_levels: Mapping[ModelName, SleepLevel]
    ) -> bool:
        """Once the victims have left, do `wanted` and what they keep asleep fit?"""
        gone = {wanted.name, *(victim.name for victim in victims)}
        stay = [model.spec for model in [*self.staying, *self.promised] if model.name not in gone]
        then = MemoryUse(self.catalog, [*stay, self.catalog.models[wanted.name]])
        sleeping = [takes(model, self.catalog) for model in self.asleep if model.name not in gone]
        kept = [
            kept_asleep(each, sleep_levels[each.name], self.catalog) for each in victims if each.name in sleep_levels
        ]
        for memory in [*self._kept, *sleeping, *kept]:
            then.hold(memory)
        concerned = {**needs(self.catalog.models[wanted.name], self.catalog), **added_up(kept)}
        return then.excess().keys().isdisjoint(concerned)

    def in_the_way(self, spec: ModelSpec) -> tuple[ModelState, ...]:
        """Leaving models that it waits for."""
        return tuple(model for model in self.leaving if is_in_the_way(model.spec, spec, self.catalog))


def fits_beside(wanted: ModelSpec, resident: ModelSpec, catalog: Catalog) -> bool:
    return MemoryUse(catalog, (resident,)).admits(wanted)


def is_in_the_way(resident: ModelSpec, wanted: ModelSpec, catalog: Catalog) -> bool:
    """May `wanted` need memory of `resident`?"""
    if catalog.groups.may_push_out(resident.name, wanted.name):
        return True
    return not needs(resident, catalog).keys().isdisjoint(needs(wanted, catalog))


def within_budget(shares: Iterable[Mapping[Place, Bytes]], catalog: Catalog) -> bool:
    taken = added_up(shares)
    return all(bytes_ <= catalog.budgets.get(place, 0) for place, bytes_ in taken.items())


def added_up(shares: Iterable[Mapping[Place, Bytes]]) -> dict[Place, Bytes]:
    taken: dict[Place, Bytes] = {}
    for share in shares:
        for place, bytes_ in share.items():
            taken[place] = taken.get(place, 0) + bytes_
    return taken


def takes(model: ModelState, catalog: Catalog) -> Mapping[Place, Bytes]:
    """What its process counts as now. On the way to or from sleep memory moves: the larger figure counts."""
    needed = needs(model.spec, catalog)
    if model.sleep_level is None or model.phase is Phase.DRAINING:
        return needed
    kept = kept_asleep(model, model.sleep_level, catalog)
    return kept if model.is_asleep else most_of(needed, kept)


def may_change_level(state: State, model: ModelState) -> bool:
    """On the way to sleep both figures count, beside all present models."""
    assert model.sleep_level is not None
    kept, needed = kept_asleep(model, model.sleep_level, state.catalog), needs(model.spec, state.catalog)
    more = {place: bytes_ - needed.get(place, 0) for place, bytes_ in kept.items() if bytes_ > needed.get(place, 0)}
    return MemoryForecast(state).now.fits(more)


def kept_asleep(model: ModelState, level: SleepLevel, catalog: Catalog) -> Mapping[Place, Bytes]:
    """Memory kept asleep: as declared, else as measured, else all of it in RAM (weights kept) or none."""
    if not catalog.budgets:
        return NOTHING
    if level.memory is not None:
        return level.memory
    sleep_stats = model.stats.sleep_stats_by_level.get(level.name)
    if sleep_stats is not None and sleep_stats.memory is not None:
        return {
            place: sleep_stats.memory[place.device] for place in catalog.budgets if place.device in sleep_stats.memory
        }
    if not level.keeps_weights or HOST_MEMORY not in catalog.budgets:
        return NOTHING
    return {HOST_MEMORY: sum(needs(model.spec, catalog).values())}


def needs(spec: ModelSpec, catalog: Catalog) -> Mapping[Place, Bytes]:
    """Memory by place: none without budgets, a whole device if unknown."""
    if not catalog.budgets:
        return {}
    if spec.memory is not None:
        return spec.memory
    if spec.learned is not None:
        return spec.learned.memory
    first = next(iter(catalog.budgets))
    return {first: catalog.limits[first]}


def most_of(one: Mapping[Place, Bytes], other: Mapping[Place, Bytes]) -> dict[Place, Bytes]:
    return {place: max(one.get(place, 0), other.get(place, 0)) for place in {**one, **other}}


def refusal(spec: ModelSpec, beside: Sequence[ModelSpec], catalog: Catalog) -> NeverFits | NoMemory:
    """Why `spec` does not fit beside models that stay: it never fits, or not at present."""
    taken = added_up(needs(each, catalog) for each in beside)
    for place, bytes_ in needs(spec, catalog).items():
        used, limit = taken.get(place, 0), catalog.limits.get(place, 0)
        if bytes_ + used > limit:
            return _lack(spec, place, used, catalog)
    neighbour = catalog.groups.pushed_out(spec.name, [each.name for each in beside])[0]
    return NeverFits(
        f"{spec.name} never fits: it may not run together with {neighbour}, which is pinned. {NEVER_FITS_HINT}"
    )


def _lack(spec: ModelSpec, place: Place, used: Bytes, catalog: Catalog) -> NeverFits | NoMemory:
    bytes_, budget = needs(spec, catalog)[place], catalog.budgets.get(place, 0)
    if spec.memory is None and spec.learned is None:
        return NeverFits(
            f"{spec.name} never fits: its memory is unknown, so it takes all of {place}, of which {in_gib(used)} is"
            f" reserved by pinned models. Declare `memory` for {spec.name}."
        )
    needed = f"it needs {in_gib(bytes_)}{_source(spec)}, but the budget of {place} is {in_gib(budget)}"
    pinned = f", of which {in_gib(used)} is reserved by pinned models" if used else ""
    if bytes_ + used > budget:
        return NeverFits(f"{spec.name} never fits: {needed}{pinned}. {NEVER_FITS_HINT}")
    left = f", and other programs leave only {in_gib(catalog.limits[place])} of it"
    text = f"{spec.name} does not fit right now: {needed}{pinned}{left}. Try again when they have finished."
    return NoMemory(text, retry_after=OTHERS_S)


def _source(spec: ModelSpec) -> str:
    return f" ({spec.learned.source.value})" if spec.learned is not None and spec.memory is None else ""


def in_gib(bytes_: Bytes) -> str:
    return f"{bytes_ / (1 << 30):.3g} GiB"
