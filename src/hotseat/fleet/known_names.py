"""PURE: the names of models: those that a present host may run, and those of hosts that are expected back."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotseat.fleet.absences import Absences
    from hotseat.fleet.catalog import FleetCatalog
    from hotseat.identifiers import ModelName


class KnownNames:
    def __init__(self, catalog: FleetCatalog, used: Iterable[str], absences: Absences) -> None:
        """`used` are the digests of the catalogs of present hosts, at any time."""
        self._catalog, self._used, self._absences = catalog, used, absences

    def resolve(self, name: str) -> ModelName | None:
        """The model with this name or alias anywhere in the fleet."""
        return self._catalog.resolve(name)

    def present(self) -> Iterator[tuple[str, ModelName]]:
        """Names and aliases of the models that a present host may run."""
        return self._catalog.names()

    def expected(self) -> Iterator[tuple[str, ModelName]]:
        """Those of hosts that have left and are expected back."""
        return chain.from_iterable(map(self._catalog.names_in, self._absences.catalogs()))

    def catalogs(self) -> frozenset[str]:
        """Of present hosts and of those that are expected back: known names change only with these."""
        return frozenset(filter(self._catalog.has, chain(self._used, self._absences.catalogs())))
