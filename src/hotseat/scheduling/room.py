"""Does it fit? Groups say who must be gone, budgets say how much memory there is; nobody else asks about memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.terms import Bytes, Place


def fits(wanted: ModelSpec, beside: Iterable[ModelSpec], catalog: Catalog) -> bool:
    """May `wanted` load while these are resident?"""
    residents = tuple(beside)
    if any(catalog.groups.must_leave(resident.name, wanted.name) for resident in residents):
        return False
    return within_budget((wanted, *residents), catalog)


def is_in_the_way(resident: ModelSpec, wanted: ModelSpec, catalog: Catalog) -> bool:
    """May `wanted` need the room of `resident`?"""
    if catalog.groups.must_leave(resident.name, wanted.name):
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
    neighbour = next(each for each in beside if catalog.groups.must_leave(each.name, spec.name))
    return f"may not run beside {neighbour.name}, which is pinned"


def in_gib(bytes_: Bytes) -> str:
    return f"{bytes_ / (1 << 30):.3g} GiB"
