"""Which sets of models may be loaded together, according to llama-swap's matrix.

A set allows all its subsets; a model in no set runs alone. Pairs are not enough: three models may be allowed in pairs
but not together, so every question is about all loaded models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.identifiers import ModelName


@dataclass(frozen=True)
class Matrix:
    sets: tuple[tuple[ModelName, ...], ...]
    """In configured order: of equally cheap sets the first wins."""
    evict_costs: Mapping[ModelName, int] = field(default_factory=lambda: NOTHING)
    """Cost of stopping a model; default 1."""
    _with: Mapping[ModelName, tuple[frozenset[ModelName], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[ModelName, list[frozenset[ModelName]]] = {}
        for members in self.sets:
            for member in members:
                found.setdefault(member, []).append(frozenset(members))
        object.__setattr__(self, "_with", MappingProxyType({name: tuple(sets) for name, sets in found.items()}))

    def pushed_out(self, wanted: ModelName, residents: Iterable[ModelName]) -> tuple[ModelName, ...]:
        """Residents outside the cheapest set with `wanted`; empty if one set has all of them."""
        others = [name for name in residents if name != wanted]
        cheapest = min(self._sets_with(wanted), key=lambda allowed: self._cost(others, allowed))
        return tuple(name for name in others if name not in cheapest)

    def excludes(self, one: ModelName, other: ModelName) -> bool:
        """Does no set have both?"""
        return all(other not in allowed for allowed in self._sets_with(one))

    def may_push_out(self, resident: ModelName, wanted: ModelName) -> bool:
        """Does `wanted` have a set without `resident`?"""
        return any(resident not in allowed for allowed in self._sets_with(wanted))

    def alone(self, models: Iterable[ModelName]) -> tuple[ModelName, ...]:
        """Models in no set."""
        return tuple(name for name in models if name not in self._with)

    def _sets_with(self, name: ModelName) -> tuple[frozenset[ModelName], ...]:
        return self._with.get(name) or (frozenset((name,)),)

    def _cost(self, residents: Iterable[ModelName], allowed: frozenset[ModelName]) -> int:
        return sum(self.evict_costs.get(name, 1) for name in residents if name not in allowed)
