"""Does it fit? Groups say who must be gone, budgets say how much memory there is; nobody else asks about memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.groups import Group
    from hotseat.catalog.spec import ModelSpec
    from hotseat.scheduling.state import ModelState, State
    from hotseat.terms import Bytes, Place


class Occupancy:
    """Some models side by side: asked for each claim, so what it is asked is added up once."""

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

    def admits(self, spec: ModelSpec) -> bool:
        """May it load beside them?"""
        return not self._pushes_out(spec) and not self.lacks(spec)

    def _pushes_out(self, spec: ModelSpec) -> bool:
        groups = self._catalog.groups
        if groups.matrix is not None:
            return bool(groups.pushed_out(spec.name, [each.name for each in self.models]))
        ours = groups.of(spec.name)
        return any(ours.pushes_out(group) for group in self._groups.values())

    def lacks(self, spec: ModelSpec) -> dict[Place, Bytes]:
        """How much memory is missing for it, and where; of places where nothing is missing, nothing is said."""
        budgets, taken = self._catalog.budgets, self._taken
        missing = {}
        for place, bytes_ in needs(spec, self._catalog).items():
            lack = bytes_ + taken.get(place, 0) - budgets.get(place, 0)
            if lack > 0:
                missing[place] = lack
        return missing


class Floor:
    """Who is there now, and who will be once those leaving have left and those with room promised have come."""

    __slots__ = ("_promised_groups", "_then", "catalog", "draining", "leaving", "now", "promised", "staying")

    def __init__(self, state: State) -> None:
        present = state.with_process()
        self.catalog = state.catalog
        self.leaving = [model for model in present if model.is_leaving]
        self.draining = [model for model in self.leaving if model.leases]
        self.staying = [model for model in present if not model.is_leaving]
        self.promised: list[ModelState] = []
        self._promised_groups: dict[int, tuple[Group, ModelState]] = {}
        self.now = Occupancy(self.catalog, (model.spec for model in present))
        self._then: Occupancy | None = None

    @property
    def then(self) -> Occupancy:
        if self._then is None:
            self._then = Occupancy(self.catalog, (model.spec for model in [*self.staying, *self.promised]))
        return self._then

    def start(self, model: ModelState, spec: ModelSpec) -> None:
        self.now.add(spec)
        self.promise(model, spec)

    def promise(self, model: ModelState, spec: ModelSpec) -> None:
        group = self.catalog.groups.of(spec.name)
        self.promised.append(model)
        self._promised_groups.setdefault(id(group), (group, model))
        self.then.add(spec)

    def promised_instead_of(self, spec: ModelSpec) -> ModelState | None:
        """Who has room promised and may not be beside this one, whichever comes first."""
        groups, ours = self.catalog.groups, self.catalog.groups.of(spec.name)
        if groups.matrix is not None:
            return next((model for model in self.promised if groups.must_leave(model.name, spec.name)), None)
        for group, model in self._promised_groups.values():
            if ours.pushes_out(group) or group.pushes_out(ours):
                return model
        return None

    def evict(self, victims: Sequence[ModelState]) -> None:
        gone = {victim.name for victim in victims}
        self.staying = [model for model in self.staying if model.name not in gone]
        self.leaving += victims
        self.draining += [victim for victim in victims if victim.leases]
        self._then = None

    def in_the_way(self, spec: ModelSpec) -> tuple[ModelState, ...]:
        """Those leaving whom it waits for."""
        return tuple(model for model in self.leaving if is_in_the_way(model.spec, spec, self.catalog))


def fits_beside(wanted: ModelSpec, resident: ModelSpec, catalog: Catalog) -> bool:
    return Occupancy(catalog, (resident,)).admits(wanted)


def is_in_the_way(resident: ModelSpec, wanted: ModelSpec, catalog: Catalog) -> bool:
    """May `wanted` need the room of `resident`?"""
    if catalog.groups.may_push_out(resident.name, wanted.name):
        return True
    return not needs(resident, catalog).keys().isdisjoint(needs(wanted, catalog))


def within_budget(models: Iterable[ModelSpec], catalog: Catalog) -> bool:
    taken = room_taken(models, catalog)
    return all(bytes_ <= catalog.budgets.get(place, 0) for place, bytes_ in taken.items())


def room_taken(models: Iterable[ModelSpec], catalog: Catalog) -> dict[Place, Bytes]:
    taken: dict[Place, Bytes] = {}
    for spec in models:
        for place, bytes_ in needs(spec, catalog).items():
            taken[place] = taken.get(place, 0) + bytes_
    return taken


def needs(spec: ModelSpec, catalog: Catalog) -> Mapping[Place, Bytes]:
    """Memory per device. Without budgets nothing is counted; without a figure it is a whole device."""
    if not catalog.budgets:
        return {}
    if spec.memory is not None:
        return spec.memory
    first = next(iter(catalog.budgets))
    return {first: catalog.budgets[first]}


def shortage(spec: ModelSpec, beside: Sequence[ModelSpec], catalog: Catalog) -> str:
    """In numbers, why `spec` cannot be had beside these, for a person."""
    taken = room_taken(beside, catalog)
    for place, bytes_ in needs(spec, catalog).items():
        budget, used = catalog.budgets.get(place, 0), taken.get(place, 0)
        if bytes_ + used > budget:
            pinned = f", of which {in_gib(used)} are taken for good" if used else ""
            return f"needs {in_gib(bytes_)}, the budget of {place} is {in_gib(budget)}{pinned}"
    neighbour = catalog.groups.pushed_out(spec.name, [each.name for each in beside])[0]
    return f"may not run beside {neighbour}, which is pinned"


def in_gib(bytes_: Bytes) -> str:
    return f"{bytes_ / (1 << 30):.3g} GiB"
