"""Keeps what operators have set for models across restarts. The configuration file is never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.catalog.spec import MOST_TTL_S, NO_OVERRIDES, Overrides
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import OverridesChanged
from hotseat.state.state_file import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Seconds
    from hotseat.state.state_file import StateFile

OVERRIDES = "overrides.json"
"""In the state directory."""


class OverridesStore:
    """What is set for a model that is missing stays: its folder may be mounted later."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    def applied_to(self, catalog: Catalog) -> Catalog:
        return catalog.with_overrides(self.kept())

    def kept(self) -> dict[ModelName, Overrides]:
        return from_json(self._file.read().get("models"))

    def to_hand_over(self, catalog: Catalog) -> dict[str, Any]:
        """Also what was taken back and is still in the file, because that cannot be written."""
        taken_back = {name: NO_OVERRIDES for name in self.kept() if name in catalog.models}
        return to_json({**taken_back, **catalog.overrides})

    def watch(self, entry: Entry) -> None:
        """A listener of the journal."""
        if isinstance(event := entry.event, OverridesChanged):
            before = self.kept()
            kept = {**before, event.model: Overrides(event.pinned, event.ttl_s)}
            if before.get(event.model, NO_OVERRIDES) != kept[event.model]:
                self._file.write({"format": FORMAT, "models": to_json({n: each for n, each in kept.items() if each})})


def to_json(overrides: Mapping[ModelName, Overrides]) -> dict[str, Any]:
    return {name: {"pinned": each.pinned, "ttl": each.ttl_s} for name, each in overrides.items()}


def from_json(models: object) -> dict[ModelName, Overrides]:
    found = models.items() if isinstance(models, dict) else ()
    return {ModelName(name): _overrides(each) for name, each in found}


def _overrides(plain: object) -> Overrides:
    """Values that are not valid count as not set."""
    known = plain if isinstance(plain, dict) else {}
    pinned = known.get("pinned")
    return Overrides(pinned if isinstance(pinned, bool) else None, _seconds(known.get("ttl")))


def _seconds(value: object) -> Seconds | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST_TTL_S else None
