"""Everything that may run, and by which names it is called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.catalog.groups import Groups
from hotseat.catalog.spec import NOTHING, ModelSpec
from hotseat.errors import UnknownModel, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.terms import Bytes, ModelName, Place, Seconds


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduler's knobs."""

    patience: float = 2.0
    max_queue: int = 512
    max_wait_s: Seconds | None = None
    """Turns are shortened so that a rotation of everybody who waits keeps this; None: patience alone counts."""


@dataclass(frozen=True)
class Catalog:
    models: Mapping[ModelName, ModelSpec]
    groups: Groups = field(default_factory=Groups)
    budgets: Mapping[Place, Bytes] = field(default_factory=lambda: NOTHING)
    """Memory that may be used per device. Empty: models are counted by groups alone."""
    policy: Policy = Policy()
    default_model: ModelName | None = None
    preload: tuple[ModelName, ...] = ()
    unsupported: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Names whose configuration hotseat reads but cannot serve yet, with the key that says so."""
    _canonical: Mapping[str, ModelName] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        canonical = {alias: spec.name for spec in self.models.values() for alias in spec.aliases}
        object.__setattr__(self, "_canonical", {**canonical, **{name: name for name in self.models}})

    def find(self, name: str) -> ModelSpec | None:
        """The model called `name`, by its own name or an alias."""
        canonical = self._canonical.get(name)
        return None if canonical is None else self.models[canonical]

    def resolve(self, name: str) -> ModelSpec:
        spec = self.find(name)
        if spec is None:
            raise UnknownModel(f'model "{name}" is not defined in the configuration.{did_you_mean(name, self.names())}')
        return spec

    def names(self) -> Iterable[str]:
        """Every name a client may use, aliases included."""
        return self._canonical.keys()

    def listed(self) -> Iterator[ModelSpec]:
        return (spec for spec in self.models.values() if not spec.unlisted)

    def only_model(self) -> ModelSpec | None:
        return next(iter(self.models.values())) if len(self.models) == 1 else None


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """What a reload touches: the rest keeps its process and its streams."""

    added: tuple[ModelName, ...] = ()
    changed: tuple[ModelName, ...] = ()
    removed: tuple[ModelName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def compare(old: Catalog, new: Catalog) -> CatalogChange:
    """Which models a running process of the old catalog could no longer serve as the new one says."""
    return CatalogChange(
        added=tuple(name for name in new.models if name not in old.models),
        changed=tuple(
            name for name in new.models if name in old.models and must_restart(old.models[name], new.models[name])
        ),
        removed=tuple(name for name in old.models if name not in new.models),
    )


def must_restart(old: ModelSpec, new: ModelSpec) -> bool:
    """Only what reaches the process or its room forces a restart; names, time limits and filters do not."""
    return (old.recipe, old.memory) != (new.recipe, new.memory)
