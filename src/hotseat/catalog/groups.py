"""Which models may be loaded together, by llama-swap's groups, by its matrix, and by what only one process can use.

The rule of groups is one-way on purpose, as in existing llama-swap files: loading a member of an exclusive group
unloads the others, loading a member of a non-exclusive group unloads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.catalog.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hotseat.identifiers import ModelName


class Group(Struct, frozen=True):
    name: str
    swap: bool = True
    """Only one member at a time."""
    exclusive: bool = True
    """Loading a member unloads members of other groups that are not persistent."""
    persistent: bool = False
    """Other groups cannot unload the members."""
    members: tuple[ModelName, ...] = ()

    def pushes_out(self, other: Group) -> bool:
        """Must members of `other` be gone before a member of this group loads?"""
        if other is self:
            return self.swap
        return self.exclusive and not other.persistent


ALONE = Group("(default)")
"""For models in no group: one at a time."""
ONE_AT_A_TIME = "models run one at a time without `devices`"

TOGETHER = Group("(default)", swap=False, exclusive=False)
"""For models in no group if a memory budget decides."""


@dataclass(frozen=True)
class Groups:
    groups: tuple[Group, ...] = ()
    default: Group = ALONE
    matrix: Matrix | None = None
    """If set, decides instead of the groups."""
    exclusive: Mapping[str, tuple[ModelName, ...]] = field(default_factory=lambda: NOTHING)
    """What only one process can use, such as a fixed address, and the models that use it: one of them at a time."""
    _of: Mapping[ModelName, Group] = field(init=False, repr=False, compare=False)
    _uses: Mapping[ModelName, frozenset[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        of = {member: group for group in self.groups for member in group.members}
        object.__setattr__(self, "_of", MappingProxyType(of))
        uses: dict[ModelName, frozenset[str]] = {}
        for what, members in self.exclusive.items():
            uses |= {member: uses.get(member, frozenset()) | {what} for member in members}
        object.__setattr__(self, "_uses", MappingProxyType(uses))

    def of(self, model: ModelName) -> Group:
        return self._of.get(model, self.default)

    def both_use(self, one: ModelName, other: ModelName) -> str | None:
        """What only one of two models can use at a time; None: nothing."""
        if one == other or one not in self._uses or other not in self._uses:
            return None
        return min(self._uses[one] & self._uses[other], default=None)

    def pushed_out(self, wanted: ModelName, residents: Iterable[ModelName]) -> tuple[ModelName, ...]:
        """Which residents must be gone before `wanted` may load; empty: it may load beside them."""
        if self.matrix is not None:
            names = [*residents]
            pushed = self.matrix.pushed_out(wanted, names)
            return tuple(name for name in names if name in pushed or self.both_use(name, wanted))
        ours = self.of(wanted)
        if not (ours.swap or ours.exclusive or wanted in self._uses):
            return ()
        return tuple(resident for resident in residents if self.must_leave(resident, wanted))

    def must_leave(self, resident: ModelName, wanted: ModelName) -> bool:
        """Must `resident` be gone before `wanted` may load, whatever else is loaded?"""
        if self.both_use(resident, wanted):
            return True
        if self.matrix is not None:
            return resident != wanted and self.matrix.excludes(resident, wanted)
        return self.of(wanted).pushes_out(self.of(resident))

    def never_beside(self, model: ModelName, others: Iterable[ModelName]) -> ModelName | None:
        """The first of these beside which `model` may not run, in whatever order they are loaded; None: beside all."""
        if self.matrix is not None:
            return next(iter(self.pushed_out(model, others)), None)
        return next((each for each in others if self.must_leave(each, model) and self.must_leave(model, each)), None)

    def rule_between(self, resident: ModelName, wanted: ModelName) -> str:
        """The rule by which `wanted` pushes out `resident`, as the second half of a sentence."""
        if what := self.both_use(resident, wanted):
            return f"both use {what}"
        ours, theirs = self.of(wanted), self.of(resident)
        if self.matrix is not None:
            together = "both" if self.matrix.excludes(resident, wanted) else "all of the loaded models"
            return f"no set of the matrix has {together}"
        if ours is self.default:
            return f"{wanted} is in no group, so it runs alone" if theirs is not ours else ONE_AT_A_TIME
        return f"group {ours.name} {'runs one of its models at a time' if theirs is ours else 'is exclusive'}"

    def may_push_out(self, resident: ModelName, wanted: ModelName) -> bool:
        """May `wanted` exclude `resident`, depending on what else is loaded?"""
        if self.matrix is not None:
            return self.matrix.may_push_out(resident, wanted) or self.both_use(resident, wanted) is not None
        return self.must_leave(resident, wanted)


@dataclass(frozen=True)
class Matrix:
    """Which sets of models may be loaded together, according to llama-swap's matrix.

    A set allows all its subsets; a model in no set runs alone. Pairs are not enough: three models may be allowed in
    pairs but not together, so every question is about all loaded models.
    """

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
