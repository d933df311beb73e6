"""Everything that may run, and by which names it is called."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hotseat.catalog.groups import Groups
from hotseat.catalog.named_models import called, renamed
from hotseat.catalog.spec import NOTHING, ModelSpec
from hotseat.errors import UnknownModel, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.catalog.named_models import FleetModel, Lead, Profile, RemoteModel, Selector, Servable
    from hotseat.catalog.spec import Footprint
    from hotseat.identifiers import Bytes, ModelName, Place, Seconds


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
    returns_to_default: bool = False
    """Is the default model loaded again when another one was unloaded for being unused?"""
    preload: tuple[ModelName, ...] = ()
    remotes: Mapping[str, RemoteModel] = field(default_factory=lambda: NOTHING)
    """Models of peers, by each name that leads to them."""
    fellows: Mapping[str, FleetModel] = field(default_factory=lambda: NOTHING)
    """Models that only other hosts of the fleet have, by each name that leads to them."""
    selectors: Mapping[str, Selector] = field(default_factory=lambda: NOTHING)
    profiles: Mapping[str, Profile] = field(default_factory=lambda: NOTHING)
    active_profile: str | None = None
    available: Mapping[Place, Bytes] = field(default_factory=lambda: NOTHING)
    """What others leave of a device at present, where that was measured."""
    limits: Mapping[Place, Bytes] = field(init=False, repr=False, compare=False)
    """What models may take now: the budgets, or what others leave of them."""
    _called: Mapping[str, ModelSpec] = field(init=False, repr=False, compare=False)
    """Our models by all their names, whatever profile is active."""
    _leads: Mapping[str, Lead] = field(init=False, repr=False, compare=False)
    """What each name leads to for a client now."""

    def __post_init__(self) -> None:
        limits = {place: min(budget, self.available.get(place, budget)) for place, budget in self.budgets.items()}
        object.__setattr__(self, "limits", limits)
        own = {alias: called(spec, alias) for spec in self.models.values() for alias in spec.aliases}
        own |= {name: called(spec, name) for name, spec in self.models.items()}
        object.__setattr__(self, "_called", own)
        leads: dict[str, Lead] = {**own, **self.selectors}
        for strangers in (self.remotes, self.fellows):
            leads |= {name: stranger for name, stranger in strangers.items() if name not in leads}
        pins = self.profiles[self.active_profile].pins if self.active_profile else NOTHING
        pinned = {name: renamed(leads[target], target) for name, target in pins.items() if target in leads}
        kept = {name: lead for name, lead in leads.items() if name not in pins}
        object.__setattr__(self, "_leads", {**kept, **pinned})

    # What clients ask for

    def lead(self, name: str) -> Lead | None:
        """What a client gets who asks for `name`."""
        return self._leads.get(name)

    def follow(self, name: str) -> Lead:
        lead = self._leads.get(name)
        if lead is None:
            raise UnknownModel(self._unknown(name))
        return lead

    def choices(self, selector: Selector) -> tuple[Servable, ...]:
        """What a selector chooses from; each is told its own name, not the selector's."""
        return tuple(renamed(self._servable(target), target) for target in selector.targets)

    def _servable(self, name: str) -> Servable:
        return self._called.get(name) or self.remotes[name]

    def names(self) -> Iterable[str]:
        """Every name a client may use, aliases included."""
        return self._leads.keys()

    def _unknown(self, name: str) -> str:
        if self.active_profile and name in self.profiles[self.active_profile].pins:
            return f'model "{name}" is disabled by the active profile "{self.active_profile}".'
        return f'model "{name}" is not defined in the configuration.{did_you_mean(name, self.names())}'

    def with_profile(self, name: str | None) -> Catalog:
        """The same with this profile active, if there is one of that name."""
        return replace(self, active_profile=name) if name in self.profiles else self

    def with_fellows(self, fellows: Mapping[str, FleetModel]) -> Catalog:
        """The same beside what other hosts have."""
        return replace(self, fellows=fellows)

    def with_learned(self, name: ModelName, learned: Footprint) -> Catalog:
        """The same with this known of the memory of one of its models."""
        return replace(self, models={**self.models, name: replace(self.models[name], learned=learned)})

    # What operators ask for: profiles do not matter to them

    def find(self, name: str) -> ModelSpec | None:
        """Our model called `name`, by its own name or an alias."""
        return self._called.get(name)

    def resolve(self, name: str) -> ModelSpec:
        spec = self.find(name)
        if spec is not None:
            return spec
        if name in self.selectors:
            raise UnknownModel(f'"{name}" is a selector. Name one of its targets: {", ".join(self._own_targets(name))}')
        if name in self.remotes:
            peer = self.remotes[name].peer
            raise UnknownModel(f'"{name}" is a model of the peer "{peer}": this hotseat cannot load or stop it')
        if name in self.fellows:
            raise UnknownModel(f'"{name}" is a model of other hosts. `hotseat fleet status` lists them')
        raise UnknownModel(self._unknown(name))

    def _own_targets(self, selector: str) -> Iterator[str]:
        return (target for target in self.selectors[selector].targets if target in self._called)

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
