"""Keeps what operators have set for models across restarts. The configuration file is never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.catalog.overrides import MOST_TTL_S, Overrides
from hotseat.identifiers import ModelName
from hotseat.scheduling.events import CatalogChanged
from hotseat.state.state_file import FORMAT

if TYPE_CHECKING:
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
        self._last: dict[ModelName, Overrides] = {}

    def applied_to(self, catalog: Catalog) -> Catalog:
        applied = catalog.with_overrides(self.kept())
        self._last = applied.overrides
        return applied

    def kept(self) -> dict[ModelName, Overrides]:
        models = self._file.read().get("models")
        found = models.items() if isinstance(models, dict) else ()
        return {ModelName(name): overrides for name, each in found if (overrides := _overrides(each))}

    def watch(self, entry: Entry) -> None:
        """A listener of the journal."""
        if isinstance(entry.event, CatalogChanged) and entry.event.catalog.overrides != self._last:
            self._keep(entry.event.catalog)

    def _keep(self, catalog: Catalog) -> None:
        self._last, before = catalog.overrides, self.kept()
        others = {name: each for name, each in before.items() if name not in catalog.models}
        kept = {**others, **catalog.overrides}
        if kept != before:
            self._file.write({"format": FORMAT, "models": {name: _plain(each) for name, each in kept.items()}})


def _plain(overrides: Overrides) -> dict[str, Any]:
    return {"pinned": overrides.pinned, "ttl": overrides.ttl_s}


def _overrides(plain: object) -> Overrides:
    """Values that are not valid count as not set."""
    known = plain if isinstance(plain, dict) else {}
    pinned = known.get("pinned")
    return Overrides(pinned if isinstance(pinned, bool) else None, _seconds(known.get("ttl")))


def _seconds(value: object) -> Seconds | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST_TTL_S else None
