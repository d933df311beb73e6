"""What a name stands for: a local model, a model of another server, or a selector.

A remote model has no process and no phase: like the management application it is an upstream that always exists, so the
scheduler is not involved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from hotseat.catalog.spec import DEFAULT_TIMEOUTS, NOTHING, UNCHANGED, BodyChanges, ModelSpec, Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Address, ModelName


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model of a peer. `changes` always sets the peer's name for it."""

    name: ModelName
    """`peer/model`, whatever name the client used."""
    peer: str
    address: Address
    changes: BodyChanges
    api_key: str = field(default="", repr=False)
    """Sent to this peer instead of the client's key."""
    timeouts: Timeouts = DEFAULT_TIMEOUTS


class FleetModel(Struct, frozen=True):
    """A model that only other hosts of the fleet have."""

    name: ModelName
    changes: BodyChanges = UNCHANGED
    timeouts: Timeouts = DEFAULT_TIMEOUTS


class Strategy(Enum):
    WARM = "warm"
    """The first target that is ready, else the first that is loading, else the first."""
    PIN = "pin"
    """Always the first target."""
    SPILLOVER = "spillover"
    """A running target with a free place, else the next one that does not run."""


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    strategy: Strategy
    targets: tuple[str, ...]
    """Names of models, aliases and models of peers; never of selectors."""
    spillover: int = 1
    """Requests at a target before the next one is used."""
    title: str = ""
    description: str = ""
    unlisted: bool = False
    metadata: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


class Profile(Struct, frozen=True):
    """Names that mean other models while it is active."""

    name: str
    description: str
    pins: Mapping[str, str]
    """Name to name; an empty value disables the name."""


Servable: TypeAlias = ModelSpec | RemoteModel | FleetModel
NamedModel: TypeAlias = Servable | Selector


AnyNamedModel = TypeVar("AnyNamedModel", bound=NamedModel)


def renamed(named_model: AnyNamedModel, name: str) -> AnyNamedModel:
    """A copy that sends `name` to the server as the model's name, unless it sets another."""
    if not isinstance(named_model, ModelSpec) or named_model.changes.model_name is not None:
        return named_model
    return replace(named_model, changes=replace(named_model.changes, model_name=name))


def called(spec: ModelSpec, name: str) -> ModelSpec:
    """The model with the body changes of this name."""
    changes = spec.changes_by_name.get(name)
    return spec if changes is None else replace(spec, changes=changes or UNCHANGED)
