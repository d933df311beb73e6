"""Which sets of models may be resident together, as llama-swap's matrix says it.

A set allows all its subsets; a model in no set runs alone. Pairs do not suffice to say this: three models may go
together two by two and still not all at once, so the question is always about everybody who is there.
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
    """In the order written: of equally cheap sets the first is taken."""
    evict_costs: Mapping[ModelName, int] = field(default_factory=lambda: NOTHING)
    """What it costs to stop a model; 1 where nothing is said."""
    _with: Mapping[ModelName, tuple[frozenset[ModelName], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[ModelName, list[frozenset[ModelName]]] = {}
        for members in self.sets:
            for member in members:
                found.setdefault(member, []).append(frozenset(members))
        object.__setattr__(self, "_with", MappingProxyType({name: tuple(sets) for name, sets in found.items()}))

    def pushed_out(self, wanted: ModelName, residents: Iterable[ModelName]) -> tuple[ModelName, ...]:
        """Those outside the cheapest set that holds `wanted`; nobody, where one holds them all."""
        others = [name for name in residents if name != wanted]
        cheapest = min(self._sets_with(wanted), key=lambda allowed: self._cost(others, allowed))
        return tuple(name for name in others if name not in cheapest)

    def excludes(self, one: ModelName, other: ModelName) -> bool:
        """Is there no set that holds both?"""
        return all(other not in allowed for allowed in self._sets_with(one))

    def may_push_out(self, resident: ModelName, wanted: ModelName) -> bool:
        """Is there a set for `wanted` without `resident`?"""
        return any(resident not in allowed for allowed in self._sets_with(wanted))

    def alone(self, models: Iterable[ModelName]) -> tuple[ModelName, ...]:
        """Those that are in no set."""
        return tuple(name for name in models if name not in self._with)

    def _sets_with(self, name: ModelName) -> tuple[frozenset[ModelName], ...]:
        return self._with.get(name) or (frozenset((name,)),)

    def _cost(self, residents: Iterable[ModelName], allowed: frozenset[ModelName]) -> int:
        return sum(self.evict_costs.get(name, 1) for name in residents if name not in allowed)
