"""PURE: the hosts that are there, by name, by catalog and by the models on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.fleet.absences import Absences
from hotseat.fleet.claim_table import take
from hotseat.fleet.hosts_by_catalog import HostsByCatalog
from hotseat.fleet.member import LEAVING, Member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, KeysView

    from hotseat.fleet.catalog import FleetCatalog
    from hotseat.fleet.records import Claim, HostRecord, Residence
    from hotseat.fleet.revision_tracker import Ledger
    from hotseat.fleet.store import Revision
    from hotseat.identifiers import HostName, Instant, ModelName


class PresentHosts:
    def __init__(self, me: HostName, catalog: FleetCatalog, stored: Ledger) -> None:
        """`catalog` follows which catalogs are used. `stored` has the digests of those in the store, at any time."""
        self._me, self._catalog, self._stored = me, catalog, stored
        self._members: dict[HostName, Member] = {}
        self._holders: dict[ModelName, dict[HostName, Member]] = {}
        self.by_catalog = HostsByCatalog()
        self.absences = Absences()

    # Queries

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def names(self) -> KeysView[HostName]:
        """At any time."""
        return self._members.keys()

    def get(self, name: HostName) -> Member | None:
        return self._members.get(name)

    def holders(self, model: ModelName) -> list[Member]:
        """Hosts whose record lists the model, in any phase."""
        return list(self._holders.get(model, {}).values())

    def residences(self, model: ModelName) -> Iterator[tuple[Member, Residence]]:
        """Where it is or will be: excludes hosts where it is leaving or failed."""
        for member in self._holders.get(model, {}).values():
            if member.has(model):
                yield member, member.residents[model]

    def shows(self, claim: Claim) -> bool:
        """Did its host act on the claim, with whatever result? A leaving model does not count."""
        member = self._holders.get(claim.model, {}).get(claim.host)
        return member is not None and member.residents[claim.model].phase not in LEAVING

    # Updates

    def update(self, record: HostRecord, revision: Revision, now: Instant) -> None:
        self.absences.present(record.name)
        member = self._members.get(record.name)
        if member is None:
            member = self._members[record.name] = Member(record.name, record, revision, now)
            member.update(record, revision, now)
            return self._enter(member)
        before, catalog = member.residents.keys(), member.record.catalog
        member.update(record, revision, now)
        # Nearly every record only confirms the host and the same models.
        if catalog != record.catalog:
            self._strike_out(record.name, before, catalog)
            self._enter(member)
        elif before != member.residents.keys():
            self._empty(record.name, before)
            self._enter(member)
        return None

    def miss(self, name: HostName, now: Instant) -> None:
        """Its record has ended. One that announced its departure has left in any case."""
        member = self._members.get(name)
        if member and (member.record.is_leaving or not self.absences.is_unconfirmed(name, now)):
            self._part(name, now)

    def settle(self, now: Instant) -> None:
        """Called periodically: hosts that did not renew their lease after an interruption have left."""
        for name in self.absences.overdue(now):
            self._part(name, now)
        for digest in self.absences.expired(now):
            self.drop_unknown(digest)

    def drop_unknown(self, digest: str) -> None:
        """Forget a catalog that the store does not have, unless a host needs it that is present or expected back."""
        wanted = digest in self.by_catalog or digest in self.absences.catalogs()
        if not wanted and digest not in self._stored:
            self._catalog.drop(digest)

    def _enter(self, member: Member) -> None:
        digest = member.record.catalog
        if digest not in self.by_catalog:
            self._catalog.use(digest)
        self.by_catalog.add(member)
        for model in member.residents:
            self._holders.setdefault(model, {})[member.name] = member

    def _part(self, name: HostName, now: Instant) -> None:
        if name != self._me and (member := self._members.pop(name, None)):
            self.absences.left(name, member.record.catalog, now)
            self._strike_out(name, member.residents, member.record.catalog)

    def _strike_out(self, name: HostName, residents: Iterable[ModelName], catalog: str) -> None:
        """Remove a host from the indexes."""
        self.by_catalog.remove(name, catalog)
        self._empty(name, residents)
        if catalog not in self.by_catalog:
            self._catalog.disuse(catalog)
            self.drop_unknown(catalog)

    def _empty(self, name: HostName, residents: Iterable[ModelName]) -> None:
        for model in residents:
            take(self._holders, model, name)
