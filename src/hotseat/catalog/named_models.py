"""What a name leads to: a model of ours, a model that another server has, or a choice between several.

A remote model has no process and no phase: like our own management application it is an upstream that is always
there, so nothing about it is for the scheduler to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from hotseat.catalog.spec import DEFAULT_TIMEOUTS, NOTHING, UNCHANGED, BodyChanges, ModelSpec, Timeouts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Address, ModelName


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model of a peer. `changes` always names it as the peer does."""

    name: ModelName
    """`peer/model`, whatever the client called it."""
    peer: str
    address: Address
    changes: BodyChanges
    api_key: str = field(default="", repr=False)
    """Sent to this peer in place of whatever the client sent."""
    timeouts: Timeouts = DEFAULT_TIMEOUTS


@dataclass(frozen=True, slots=True)
class FleetModel:
    """A model that other hosts of the fleet have and this one has not."""

    name: ModelName
    changes: BodyChanges = UNCHANGED
    timeouts: Timeouts = DEFAULT_TIMEOUTS


class Strategy(Enum):
    WARM = "warm"
    """The first target that is ready, else the first that is loading, else the first."""
    PIN = "pin"
    """The first target, always."""
    SPILLOVER = "spillover"
    """A target that runs and has room, else the next one that does not run."""


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


@dataclass(frozen=True, slots=True)
class Profile:
    """Names that lead elsewhere while the profile is active."""

    name: str
    description: str
    pins: Mapping[str, str]
    """Name to name; an empty one switches the name off."""


Servable: TypeAlias = ModelSpec | RemoteModel | FleetModel
Lead: TypeAlias = Servable | Selector


AnyLead = TypeVar("AnyLead", bound=Lead)


def renamed(lead: AnyLead, name: str) -> AnyLead:
    """The same for a client who called it something else: what it sends on says `name`."""
    if not isinstance(lead, ModelSpec) or lead.changes.model_name is not None:
        return lead
    return replace(lead, changes=replace(lead.changes, model_name=name))


def called(spec: ModelSpec, name: str) -> ModelSpec:
    """The model as it answers to one of its names."""
    changes = spec.changes_by_name.get(name)
    return spec if changes is None else replace(spec, changes=changes or UNCHANGED)
