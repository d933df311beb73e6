"""PURE: the models that the hosts of a fleet offer, and their names.

Hosts with the same configuration share a catalog. There may be as many as hosts, and one that comes or goes costs
about the same however many others there are. No request has to search.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotseat.fleet.records import CatalogRecord, Offer

K = TypeVar("K")
V = TypeVar("V")
Listed = list[tuple[str, V]]
"""By the digest of the catalog that has it, in the order of digests: it is the same on all hosts."""


class FleetCatalog:
    """Only catalogs that a living host uses count; the others are known, and say which names existed."""

    def __init__(self) -> None:
        self._catalogs: dict[str, CatalogRecord] = {}
        self._used: set[str] = set()
        self._offers: dict[ModelName, Listed[Offer]] = {}
        self._aliases: dict[str, Listed[ModelName]] = {}
        self.kept: dict[ModelName, int] = {}
        """Models with a minimum number of replicas, and that number."""

    def put(self, digest: str, catalog: CatalogRecord) -> None:
        # Each host renews it once a day, nearly always unchanged.
        if self._catalogs.get(digest) != catalog:
            self.drop(digest)
            self._catalogs[digest] = catalog
            self._enter(digest)

    def drop(self, digest: str) -> None:
        self._strike_out(digest)
        self._catalogs.pop(digest, None)

    def use(self, digest: str) -> None:
        """A living host has it."""
        self._used.add(digest)
        self._enter(digest)

    def disuse(self, digest: str) -> None:
        self._strike_out(digest)
        self._used.discard(digest)

    def _enter(self, digest: str) -> None:
        """Index it if it counts."""
        for model, offer in self._counting(digest).items():
            _list(self._offers, model, digest, offer)
            if offer.least > self.kept.get(model, 0):
                self.kept[model] = offer.least
            for alias in offer.aliases:
                _list(self._aliases, alias, digest, model)

    def _strike_out(self, digest: str) -> None:
        """Remove it from the indexes, before it ceases to count."""
        for model, offer in self._counting(digest).items():
            _unlist(self._offers, model, digest)
            if offer.least:
                self.kept[model] = max((other.least for _, other in self.offers(model)), default=0)
                if not self.kept[model]:
                    del self.kept[model]
            for alias in offer.aliases:
                _unlist(self._aliases, alias, digest)

    def _counting(self, digest: str) -> Mapping[ModelName, Offer]:
        return self.offers_in(digest) if digest in self._used else {}

    def offer(self, digest: str, model: ModelName) -> Offer | None:
        catalog = self._catalogs.get(digest)
        return catalog.offers.get(model) if catalog else None

    def offers(self, model: ModelName) -> Sequence[tuple[str, Offer]]:
        """With the digest of the catalog that has it."""
        return self._offers.get(model, ())

    def most(self, model: ModelName) -> int:
        """Maximum number of replicas."""
        return max((offer.most for _, offer in self.offers(model)), default=1)

    def resolve(self, name: str) -> ModelName | None:
        """The model with this name or alias; a model's own name wins over another model's alias."""
        model = ModelName(name)
        if model in self._offers:
            return model
        named = self._aliases.get(name)
        return named[0][1] if named else None

    def names(self) -> Iterator[tuple[str, ModelName]]:
        """Names and aliases."""
        for model in self._offers:
            yield model, model
        for alias, named in self._aliases.items():
            if alias not in self._offers:
                yield alias, named[0][1]

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


def _list(index: dict[K, Listed[V]], key: K, digest: str, value: V) -> None:
    """Unless it has one of this catalog, whose first model has an alias."""
    listed = index.setdefault(key, [])
    at = bisect_left(listed, digest, key=itemgetter(0))
    if at == len(listed) or listed[at][0] != digest:
        listed.insert(at, (digest, value))


def _unlist(index: dict[K, Listed[V]], key: K, digest: str) -> None:
    """If it is there."""
    listed = index.get(key, [])
    at = bisect_left(listed, digest, key=itemgetter(0))
    if at < len(listed) and listed[at][0] == digest:
        del listed[at]
        if not listed:
            del index[key]
