"""The configuration, as the role oracle looks things up in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

RANKS = ("inference", "operate", "admin")


@dataclass(frozen=True, slots=True)
class Holder:
    """The client that a key belongs to."""

    role: str
    models: tuple[str, ...] = ()

    def is_at_least(self, role: str) -> bool:
        return RANKS.index(self.role) >= RANKS.index(role)


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a name: a local model, or a model of a peer."""

    name: str
    server: str
    sent_name: str
    """The name that the server must receive; empty: the client's."""
    prefix: str = ""
    is_peer: bool = False


class Book:
    """The configuration, indexed by name."""

    def __init__(self, config: Mapping[str, Any], profile: str) -> None:
        self.config = config
        self.pins: dict[str, str | None] = config["profiles"][profile]["pins"] if profile else {}
        self.places: dict[str, Place] = {}
        """Everything that has a server, by its full name."""
        self.names: dict[str, str] = {}
        """Every name that a request may use, with the full name or selector that it stands for."""
        for name, model in config["models"].items():
            self.places[name] = Place(name, name, model.get("useModelName", ""))
            self.names |= dict.fromkeys([name, *model.get("aliases", ())], name)
        self.names |= {name: name for name in config["selectors"]}
        self._add_peers(config["peers"])
        self.holders = {key["key"]: Holder(key["role"], tuple(key.get("models", ()))) for key in config["apiKeys"]}

    def _add_peers(self, peers: Mapping[str, Any]) -> None:
        bare = [model for peer in peers.values() for model in peer["models"]]
        for peer, peer_config in peers.items():
            prefix = "/" + peer_config["proxy"].partition("//")[2].partition("/")[2]
            for model in peer_config["models"]:
                full = f"{peer}/{model}"
                self.places[full] = Place(full, peer, model, prefix.rstrip("/"), is_peer=True)
                self.names[full] = full
                if bare.count(model) == 1:
                    self.names.setdefault(model, full)

    def ends(self, name: str) -> list[Place]:
        """Every server that this name may resolve to, regardless of profiles; none for an unknown name."""
        full = self.names.get(name, "")
        selector = self.config["selectors"].get(full)
        targets = selector["targets"] if selector else [full]
        return [self.places[self.names[target]] for target in targets if target in self.names]

    def model_at(self, host: str) -> str | None:
        """The model whose server has this Host to itself."""
        labels = {f"{name.replace('/', '-')}.localhost": name for name in self.config["models"]}
        return labels.get(host.lower().partition(":")[0])

    def may_ask(self, holder: Holder, name: str | None) -> bool:
        return not holder.models or self.names.get(name or "") in {self.names[each] for each in holder.models}
