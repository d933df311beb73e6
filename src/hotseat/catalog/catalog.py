"""Every model that may run, and the names that clients use: configuration only, nothing that was measured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.catalog.groups import Groups
from hotseat.catalog.named_models import called, labelled, renamed
from hotseat.catalog.spec import NOTHING, ModelSpec
from hotseat.errors import UnknownModel, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.catalog.named_models import FleetModel, Labels, NamedModel, Profile, RemoteModel, Selector, Servable
    from hotseat.catalog.spec import Overrides
    from hotseat.identifiers import Bytes, ModelName, Place, Seconds


class Policy(Struct, frozen=True):
    """Settings of the scheduler."""

    patience: float = 2.0
    max_queue: int = 512
    max_wait_s: Seconds | None = None
    """Turns are shortened so that a rotation of all waiting models keeps this; None: only patience counts."""
    reads_ahead: bool = True
    """Read a model's files while others are unloaded for it?"""


@dataclass(frozen=True)
class Catalog:
    models: Mapping[ModelName, ModelSpec]
    groups: Groups = field(default_factory=Groups)
    budgets: Mapping[Place, Bytes] = field(default_factory=lambda: NOTHING)
    """Memory that may be used per device. Empty: only groups decide."""
    policy: Policy = field(default_factory=Policy)
    default_model: ModelName | None = None
    returns_to_default: bool = False
    """Load the default model again after another one was unloaded by its ttl?"""
    preload: tuple[ModelName, ...] = ()
    remotes: Mapping[str, RemoteModel] = field(default_factory=lambda: NOTHING)
    """Models of peers, by every name they have."""
    fleet_models: Mapping[str, FleetModel] = field(default_factory=lambda: NOTHING)
    """Models that only other hosts of the fleet have, by every name they have."""
    selectors: Mapping[str, Selector] = field(default_factory=lambda: NOTHING)
    profiles: Mapping[str, Profile] = field(default_factory=lambda: NOTHING)
    active_profile: str | None = None
    _called: Mapping[str, ModelSpec] = field(init=False, repr=False, compare=False)
    """Local models by all their names, regardless of profiles."""
    _named_models: Mapping[str, NamedModel] = field(init=False, repr=False, compare=False)
    """What each name means to a client now."""

    def __post_init__(self) -> None:
        own = {alias: called(spec, alias) for spec in self.models.values() for alias in spec.aliases}
        own |= {name: called(spec, name) for name, spec in self.models.items()}
        object.__setattr__(self, "_called", own)
        named_models: dict[str, NamedModel] = {**own, **self.selectors}
        for others in (self.remotes, self.fleet_models):
            named_models |= {name: other for name, other in others.items() if name not in named_models}
        pins = self.profiles[self.active_profile].pins if self.active_profile else NOTHING
        pinned = {
            name: renamed(named_models[target], target) for name, target in pins.items() if target in named_models
        }
        kept = {name: named_model for name, named_model in named_models.items() if name not in pins}
        object.__setattr__(self, "_named_models", {**kept, **pinned})

    @cached_property
    def fixed_ports(self) -> frozenset[int]:
        """Where servers listen whose command has no `${PORT}`: no other server may get these ports."""
        recipes = [spec.recipe for spec in self.models.values() if not spec.recipe.wants_port]
        return frozenset(recipe.fixed_address.port for recipe in recipes if recipe.fixed_address)

    # Names as clients use them

    @cached_property
    def labels(self) -> Labels:
        """Computed once, since requests look them up."""
        return labelled(tuple(self.models))

    def named_model(self, name: str) -> NamedModel | None:
        return self._named_models.get(name)

    def follow(self, name: str) -> NamedModel:
        named_model = self._named_models.get(name)
        if named_model is None:
            raise self._unknown(name)
        return named_model

    def choices(self, selector: Selector) -> tuple[Servable, ...]:
        """The targets of a selector. Each is sent its own model name, not the selector's."""
        return tuple(renamed(self._servable(target), target) for target in selector.targets)

    def _servable(self, name: str) -> Servable:
        return self._called.get(name) or self.remotes[name]

    def names(self) -> Iterable[str]:
        """Every name that a client may use, including aliases."""
        return self._named_models.keys()

    def _unknown(self, name: str) -> UnknownModel:
        if self.active_profile and name in self.profiles[self.active_profile].pins:
            return UnknownModel(f'model "{name}" is disabled by the active profile "{self.active_profile}".')
        advice = did_you_mean(name, self.names()) or " `hotseat list` and GET /v1/models list all models."
        return UnknownModel(f'model "{name}" is not defined in the configuration.', advice)

    def with_profile(self, name: str | None) -> Catalog:
        """A copy with this profile active; with none if there is no such profile."""
        return replace(self, active_profile=name if name in self.profiles else None)

    def with_fleet_models(self, fleet_models: Mapping[str, FleetModel]) -> Catalog:
        return replace(self, fleet_models=fleet_models)

    @property
    def overrides(self) -> dict[ModelName, Overrides]:
        """What operators have set, by model."""
        return {name: spec.overrides for name, spec in self.models.items() if spec.overrides}

    def with_overrides(self, overrides: Mapping[ModelName, Overrides]) -> Catalog:
        """A copy with the overrides of these models replaced; models that do not exist are ignored."""
        changed = {
            name: self.models[name].with_overrides(each) for name, each in overrides.items() if name in self.models
        }
        return replace(self, models={**self.models, **changed})

    # Names as operators use them: profiles do not apply

    def find(self, name: str) -> ModelSpec | None:
        """The local model with this name or alias."""
        return self._called.get(name)

    def meant(self, name: str) -> NamedModel | None:
        """Also what does not run on this host."""
        found = self.find(name) or self.selectors.get(name)
        return found or self.remotes.get(name) or self.fleet_models.get(name)

    def resolve(self, name: str) -> ModelSpec:
        spec = self.find(name)
        if spec is not None:
            return spec
        if name in self.selectors:
            targets = ", ".join(self._own_targets(name))
            raise UnknownModel(f'"{name}" is a selector.', f" Name one of its targets: {targets}")
        if name in self.remotes:
            peer = self.remotes[name].peer
            raise UnknownModel(f'"{name}" is a model of the peer "{peer}": this hotseat cannot load or stop it')
        if name in self.fleet_models:
            raise UnknownModel(f'"{name}" is a model of other hosts. `hotseat fleet status` lists them')
        raise self._unknown(name)

    def _own_targets(self, selector: str) -> Iterator[str]:
        return (target for target in self.selectors[selector].targets if target in self._called)

    def listed(self) -> Iterator[ModelSpec]:
        return (spec for spec in self.models.values() if not spec.unlisted)

    def only_model(self) -> ModelSpec | None:
        return next(iter(self.models.values())) if len(self.models) == 1 else None


class CatalogChange(Struct, frozen=True):
    """What a reload changes: other models keep their processes and streams."""

    added: tuple[ModelName, ...] = ()
    changed: tuple[ModelName, ...] = ()
    removed: tuple[ModelName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def compare(old: Catalog, new: Catalog) -> CatalogChange:
    """Which models are new, gone, or need a restart to match the new catalog."""
    return CatalogChange(
        added=tuple(name for name in new.models if name not in old.models),
        changed=tuple(
            name for name in new.models if name in old.models and must_restart(old.models[name], new.models[name])
        ),
        removed=tuple(name for name in old.models if name not in new.models),
    )


def must_restart(old: ModelSpec, new: ModelSpec) -> bool:
    """Changes of the launch recipe, the memory or the cards need a restart; names, timeouts and filters do not."""
    return (old.recipe, old.memory, old.gpus) != (new.recipe, new.memory, new.gpus)


def model_at(label: str, catalog: Catalog) -> ModelSpec:
    """Raises UnknownModel. A page belongs to one server, so a profile may hide it but not put another in its place."""
    labels = catalog.labels.models
    if label not in labels:
        raise UnknownModel(
            f"no model has its pages at {label}.localhost. If this is a name of this host, add it to allowedHosts in "
            "the configuration.",
            did_you_mean(label, labels),
        )
    named_model = catalog.follow(labels[label])
    if isinstance(named_model, ModelSpec) and named_model.name == labels[label]:
        return named_model
    raise UnknownModel(f'model "{labels[label]}" is replaced by the active profile "{catalog.active_profile}".')
