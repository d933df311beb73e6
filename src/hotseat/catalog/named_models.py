"""What a name stands for: a local model, a model of another server, or a selector; and the DNS label of a model.

A remote model has no process and no phase: like the management application it is an upstream that always exists, so the
scheduler is not involved. `LABEL.localhost` is the address of the own pages of a model's server.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from hotseat.catalog.spec import DEFAULT_TIMEOUTS, NOTHING, UNCHANGED, BodyChanges, ModelSpec, Timeouts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hotseat.identifiers import Address, ModelName

LONGEST_LABEL = 63
SUFFIX_DIGITS = 6
NAMELESS = "model"
"""For a name without a single letter or digit that a label may have."""
_UNFIT = re.compile(r"[^a-z0-9]+")


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


class Labels(Struct, frozen=True):
    of_model: Mapping[ModelName, str]
    models: Mapping[str, ModelName]
    """Label to name."""


@lru_cache(maxsize=4)
def labelled(names: tuple[ModelName, ...]) -> Labels:
    """A name that is a label keeps it. Others that would get the same label have a suffix, whatever their order is."""
    slugs = {name: slug(name) for name in names}
    wanted = Counter(slugs.values())
    labels = {name: each for name, each in slugs.items() if each == name or wanted[each] == 1}
    taken = set(wanted)
    for name in sorted(slugs.keys() - labels.keys()):
        labels[name] = _with_suffix(name, slugs[name], taken)
        taken.add(labels[name])
    return Labels(labels, {label: name for name, label in labels.items()})


def slug(name: str) -> str:
    """Never two hyphens in a row: browsers take a label that begins with `xn--` for an encoded one."""
    return _UNFIT.sub("-", name.lower()).strip("-")[:LONGEST_LABEL].rstrip("-") or NAMELESS


def _with_suffix(name: str, base: str, taken: Collection[str]) -> str:
    """It depends on the name alone, so that it stays the same when other models come and go."""
    base = base[: LONGEST_LABEL - SUFFIX_DIGITS - 1].rstrip("-")
    texts = (f"{name}\n{number}".encode("utf-8", "surrogatepass") for number in count())
    found = (f"{base}-{sha256(text).hexdigest()[:SUFFIX_DIGITS]}" for text in texts)
    return next(label for label in found if label not in taken)
