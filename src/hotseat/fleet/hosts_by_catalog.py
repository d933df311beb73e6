"""PURE: the present hosts by their catalog, and the order in which they are considered for a model."""

from __future__ import annotations

from bisect import bisect
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from hotseat.fleet.claim_table import take
from hotseat.fleet.rendezvous import rendezvous_score
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.fleet.member import Member
    from hotseat.identifiers import ModelName


class HostsByCatalog:
    """Iterates over the digests of catalogs that a host has."""

    def __init__(self) -> None:
        self._hosts: dict[str, dict[HostName, Member]] = {}
        self._rings: dict[str, list[tuple[int, Member]]] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self._hosts

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def add(self, member: Member) -> None:
        digest = member.record.catalog
        peers = self._hosts.setdefault(digest, {})
        if member.name not in peers:
            peers[member.name] = member
            self._rings.pop(digest, None)

    def remove(self, name: HostName, digest: str) -> None:
        take(self._hosts, digest, name)
        self._rings.pop(digest, None)

    def names(self, digest: str) -> list[HostName]:
        return sorted(self._hosts.get(digest, {}))

    def in_order(self, digest: str, model: ModelName, first: HostName) -> Iterator[Member]:
        """One host first, if it has the catalog, then the others in an order specific to the model."""
        ring = self._ring(digest)
        start = bisect(ring, rendezvous_score(model, HostName("")), key=itemgetter(0))
        preferred = self._hosts.get(digest, {}).get(first)
        if preferred:
            yield preferred
        for _, member in chain(ring[start:], ring[:start]):
            if member is not preferred:
                yield member

    def _ring(self, digest: str) -> list[tuple[int, Member]]:
        """All hosts with a catalog, in an order that is the same on all hosts and independent of their names."""
        if digest not in self._rings:
            members = self._hosts.get(digest, {}).values()
            self._rings[digest] = sorted(
                ((rendezvous_score("", member.name), member) for member in members), key=itemgetter(0)
            )
        return self._rings[digest]
