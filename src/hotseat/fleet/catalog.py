"""PURE: the models that the hosts of a fleet offer, and their names.

Hosts with the same configuration share a catalog, so there are few, and they change only when somebody edits a
configuration. The indexes are rebuilt then, so that no request has to search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.fleet.records import CatalogRecord, Offer


class FleetCatalog:
    """Only catalogs that a living host uses count; the others are known, and say which names existed."""

    def __init__(self) -> None:
        self._catalogs: dict[str, CatalogRecord] = {}
        self._used: set[str] = set()
        self._offers: dict[ModelName, dict[str, Offer]] = {}
        """By model and catalog digest."""
        self._aliases: dict[str, ModelName] = {}
        self.kept: dict[ModelName, int] = {}
        """Models with a minimum number of replicas, and that number."""

    def put(self, digest: str, catalog: CatalogRecord) -> None:
        # Each host renews it once a day, nearly always unchanged.
        if self._catalogs.get(digest) != catalog:
            self._catalogs[digest] = catalog
            self._rebuild_indexes()

    def drop(self, digest: str) -> None:
        if self._catalogs.pop(digest, None):
            self._rebuild_indexes()

    def use(self, digest: str) -> None:
        """A living host has it."""
        self._used.add(digest)
        self._rebuild_indexes()

    def disuse(self, digest: str) -> None:
        self._used.discard(digest)
        self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        self._offers, self._aliases, self.kept = {}, {}, {}
        for digest in sorted(self._used & self._catalogs.keys()):
            for model, offer in self._catalogs[digest].offers.items():
                self._offers.setdefault(model, {})[digest] = offer
                if offer.least > self.kept.get(model, 0):
                    self.kept[model] = offer.least
                for alias in offer.aliases:
                    self._aliases.setdefault(alias, model)

    def offer(self, digest: str, model: ModelName) -> Offer | None:
        catalog = self._catalogs.get(digest)
        return catalog.offers.get(model) if catalog else None

    def offers(self, model: ModelName) -> Mapping[str, Offer]:
        """By the digest of the catalog that has it."""
        return self._offers.get(model, {})

    def most(self, model: ModelName) -> int:
        """Maximum number of replicas."""
        return max((offer.most for offer in self.offers(model).values()), default=1)

    def resolve(self, name: str) -> ModelName | None:
        """The model with this name or alias; a model's own name wins over another model's alias."""
        model = ModelName(name)
        return model if model in self._offers else self._aliases.get(name)

    def names(self) -> Iterator[tuple[str, ModelName]]:
        """Names and aliases."""
        for model in self._offers:
            yield model, model
        for alias, model in self._aliases.items():
            if alias not in self._offers:
                yield alias, model

    def names_in(self, digest: str) -> Iterator[tuple[str, ModelName]]:
        """Those of one catalog, used or not."""
        catalog = self._catalogs.get(digest)
        for model, offer in catalog.offers.items() if catalog else ():
            yield model, model
            yield from ((alias, model) for alias in offer.aliases)

    def offers_in(self, digest: str) -> Mapping[ModelName, Offer]:
        catalog = self._catalogs.get(digest)
        return catalog.offers if catalog else {}

    def used(self) -> frozenset[str]:
        """Catalogs of present hosts, if their contents are known."""
        return frozenset(self._used & self._catalogs.keys())

    def has(self, digest: str) -> bool:
        return digest in self._catalogs
