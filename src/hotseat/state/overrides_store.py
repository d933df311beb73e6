"""Keeps what operators have set for models across restarts. The configuration file is never written."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from hotseat.catalog.overrides import Overrides
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
    def __init__(self, file: StateFile) -> None:
        self._file = file
        self._kept: dict[ModelName, Overrides] = {}

    def applied_to(self, catalog: Catalog) -> Catalog:
        """The catalog with what an earlier run kept; what is kept for models that are gone is dropped."""
        models = self._file.read().get("models")
        found = models.items() if isinstance(models, dict) else ()
        self._kept = {ModelName(name): overrides for name, each in found if (overrides := _overrides(each))}
        applied = catalog.with_overrides(self._kept)
        self._keep(applied)
        return applied

    def watch(self, entry: Entry) -> None:
        """A listener of the journal."""
        if isinstance(entry.event, CatalogChanged):
            self._keep(entry.event.catalog)

    def _keep(self, catalog: Catalog) -> None:
        if catalog.overrides == self._kept:
            return
        self._kept = catalog.overrides
        self._file.write({"format": FORMAT, "models": {name: _plain(each) for name, each in self._kept.items()}})


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
    return float(value) if isfinite(value) and value >= 0 else None
