"""PURE: what this host knows about the fleet, from the store and from the outcome of its own requests.

Each host owns the truth about itself; this is the last known state. Two rosters with the same changes agree, whatever
arrived twice, late or after an interruption. Only this host's own record does not come from the store: `here` sets it,
even while the store is unreachable, until another process of this host writes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from hotseat.catalog.template import address_of
from hotseat.fleet.absences import Absences
from hotseat.fleet.catalog import FleetCatalog
from hotseat.fleet.claim_table import CLAIM_S, SETTLING_S, ClaimTable, Held, take
from hotseat.fleet.host_orders import NO_ORDER, HostOrders
from hotseat.fleet.hosts_by_catalog import HostsByCatalog
from hotseat.fleet.known_names import KnownNames
from hotseat.fleet.member import LEAVING, Member
from hotseat.fleet.records import STOPS, CatalogRecord, Claim, HostOrder, HostRecord, decoded
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.store import BegunAnew, Bucket, CaughtUp, Removed, Revision, Written
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.fleet.records import Offer, Residence
    from hotseat.fleet.store import Change
    from hotseat.identifiers import Instant, ModelName


class Roster:
    def __init__(self, me: HostName, order: HostOrder = NO_ORDER) -> None:
        """`order` is what this host knows of its own orders before it reaches the store."""
        self.me = me
        self.malformed = 0
        """Records that were ignored: another version or another program wrote them."""
        self._ledgers = {bucket: Ledger() for bucket in Bucket}
        self._members: dict[HostName, Member] = {}
        self._holders: dict[ModelName, dict[HostName, Member]] = {}
        self._by_catalog = HostsByCatalog()
        self._fleet_catalog = FleetCatalog()
        self._own_catalog = ""
        self._described_here: HostName | None = me
        """The host whose record `here` sets; None: the store has the records of all hosts."""
        self._claim_table = ClaimTable()
        self._absences = Absences()
        self.orders = HostOrders(me, order, self._members.keys(), self._ledgers[Bucket.ORDERS])
        self.names = KnownNames(self._fleet_catalog, self._by_catalog, self._absences)

    # Updates

    def apply(self, bucket: Bucket, change: Change, now: Instant) -> None:
        """Apply one change from the store."""
        ledger = self._ledgers[bucket]
        match change:
            case Written(key=key, value=value, revision=revision):
                if ledger.wrote(key, revision):
                    self._write(bucket, key, value, revision, now)
            case Removed(key=key, revision=revision):
                if ledger.removed(key, revision):
                    self._remove(bucket, key, now)
            case BegunAnew():
                ledger.begun_anew()
                if bucket is Bucket.HOSTS:
                    self._absences.interrupted(now)
            case CaughtUp():
                for key in ledger.caught_up():
                    self._remove(bucket, key, now)
            case _:
                assert_never(change)

    def here(self, record: HostRecord, catalog: CatalogRecord, now: Instant) -> None:
        """Set this host's own record; the store's copy of it is ignored until `follow_own_record`."""
        self._own_catalog = record.catalog
        self._fleet_catalog.put(record.catalog, catalog)
        self._update_host(record, Revision(0), now)

    def follow_own_record(self) -> None:
        """Another process of this host writes its record from now on: the store's copy counts, and `here` ends."""
        self._described_here = None

    def settle(self, now: Instant) -> None:
        """Called periodically: hosts that did not renew their lease after an interruption have left."""
        for name in self._absences.overdue(now):
            self._part(name, now)
        for digest in self._absences.expired(now):
            self._drop_unknown(digest)

    def _write(self, bucket: Bucket, key: str, value: bytes, revision: Revision, now: Instant) -> None:
        try:
            self._take_in(bucket, key, value, revision, now)
        except ValueError:
            # A host that joins now never saw the previous value, and all hosts must know the same.
            self.malformed += 1
            self._remove(bucket, key, now)

    def _take_in(self, bucket: Bucket, key: str, value: bytes, revision: Revision, now: Instant) -> None:
        match bucket:
            case Bucket.HOSTS:
                if key != self._described_here:
                    self._update_host(self._record_of(HostName(key), value), revision, now)
            case Bucket.CLAIMS:
                self._claim_table.put(Held(key, decoded(value, Claim), revision, now + CLAIM_S))
            case Bucket.CATALOGS:
                if key != self._own_catalog:
                    self._fleet_catalog.put(key, decoded(value, CatalogRecord))
            case Bucket.ORDERS:
                self.orders.put(HostName(key), decoded(value, HostOrder))
            case _:
                assert_never(bucket)

    def _remove(self, bucket: Bucket, key: str, now: Instant) -> None:
        match bucket:
            case Bucket.HOSTS:
                self._miss(HostName(key), now)
            case Bucket.CLAIMS:
                self._let_go(key, now)
            case Bucket.CATALOGS:
                self._drop_unknown(key)
            case Bucket.ORDERS:
                pass  # nobody removes an order: the store has lost it, and it still holds
            case _:
                assert_never(bucket)

    # Hosts

    def _record_of(self, key: HostName, value: bytes) -> HostRecord:
        record = decoded(value, HostRecord)
        if record.name != key:
            raise ValueError(f"the record of {record.name} is under the key of {key}")
        known = self._members.get(key)
        if known is None or known.record.address != record.address:  # it takes longer than all else here
            address_of(record.address)  # raises if invalid: a request must never be routed to such a host
        return record

    def _update_host(self, record: HostRecord, revision: Revision, now: Instant) -> None:
        self._absences.present(record.name)
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

    def _enter(self, member: Member) -> None:
        digest = member.record.catalog
        if digest not in self._by_catalog:
            self._fleet_catalog.use(digest)
        self._by_catalog.add(member)
        for model in member.residents:
            self._holders.setdefault(model, {})[member.name] = member

    def _miss(self, name: HostName, now: Instant) -> None:
        """Its record has ended. One that announced its departure has left in any case."""
        member = self._members.get(name)
        if member and (member.record.is_leaving or not self._absences.is_unconfirmed(name, now)):
            self._part(name, now)

    def _part(self, name: HostName, now: Instant) -> None:
        if name != self.me and (member := self._members.pop(name, None)):
            self._absences.left(name, member.record.catalog, now)
            self._strike_out(name, member.residents, member.record.catalog)

    def _strike_out(self, name: HostName, residents: Iterable[ModelName], catalog: str) -> None:
        """Remove a host from the indexes."""
        self._by_catalog.remove(name, catalog)
        self._empty(name, residents)
        if catalog not in self._by_catalog:
            self._fleet_catalog.disuse(catalog)
            self._drop_unknown(catalog)

    def _drop_unknown(self, digest: str) -> None:
        """Forget a catalog that the store does not have, unless a host needs it that is present or expected back."""
        wanted = digest in self._by_catalog or digest in self._absences.catalogs()
        if not wanted and digest not in self._ledgers[Bucket.CATALOGS]:
            self._fleet_catalog.drop(digest)

    def _empty(self, name: HostName, residents: Iterable[ModelName]) -> None:
        for model in residents:
            take(self._holders, model, name)

    # Claims

    def _let_go(self, key: str, now: Instant) -> None:
        held = self._claim_table.get(key)
        if held is None:
            return
        if self.shows(held.claim):
            self._claim_table.drop(key)
        else:
            self._claim_table.put(replace(held, until=min(held.until, now + SETTLING_S)))

    def shows(self, claim: Claim) -> bool:
        """Did its host act on the claim, with whatever result? A leaving model does not count."""
        member = self._holders.get(claim.model, {}).get(claim.host)
        return member is not None and member.residents[claim.model].phase not in LEAVING

    def claimed(self, model: ModelName, now: Instant) -> list[Held]:
        """Claims to load this model that may not have been acted on."""
        return self._claim_table.for_model(model, now)

    def claimed_on(self, host: HostName, now: Instant) -> list[Held]:
        """Claims to load models on this host that may not have been acted on."""
        return self._claim_table.on_host(host, now)

    def fulfilled(self) -> list[Held]:
        """Claims made here whose host has the model by now: they can be withdrawn."""
        loads = [held for held in self._claim_table if held.claim.by == self.me and held.claim.replica != STOPS]
        return [held for held in loads if self.shows(held.claim)]

    # Queries

    def host(self, name: HostName) -> Member | None:
        return self._members.get(name)

    def hosts(self) -> Iterator[Member]:
        return iter(self._members.values())

    def holders(self, model: ModelName) -> list[Member]:
        """Hosts whose record lists the model, in any phase."""
        return list(self._holders.get(model, {}).values())

    def offering(self, model: ModelName) -> Iterator[tuple[Member, Offer]]:
        """Hosts with the model in their catalog: this host, then the others in an order specific to the model."""
        for digest, offer in self._fleet_catalog.offers(model).items():
            for member in self._by_catalog.in_order(digest, model, self.me):
                yield member, offer

    def offer(self, member: Member, model: ModelName) -> Offer | None:
        return self._fleet_catalog.offer(member.record.catalog, model)

    def has_catalog_of(self, member: Member) -> bool:
        return self._fleet_catalog.has(member.record.catalog)

    def used_catalogs(self) -> frozenset[str]:
        """Of present hosts, if their contents are known."""
        return frozenset(filter(self._fleet_catalog.has, self._by_catalog))

    def hosts_with(self, digest: str) -> list[HostName]:
        """Present hosts with this catalog."""
        return self._by_catalog.names(digest)

    def offers_in(self, digest: str) -> Mapping[ModelName, Offer]:
        return self._fleet_catalog.offers_in(digest)

    @property
    def kept(self) -> Mapping[ModelName, int]:
        """Models with a minimum number of replicas, and that number."""
        return self._fleet_catalog.kept

    def most(self, model: ModelName) -> int:
        """Maximum number of replicas."""
        return max((offer.most for offer in self._fleet_catalog.offers(model).values()), default=1)

    def residences(self, model: ModelName) -> Iterator[tuple[Member, Residence]]:
        """Where it is or will be: excludes hosts where it is leaving or failed."""
        for member in self._holders.get(model, {}).values():
            if member.has(model):
                yield member, member.residents[model]

    # Outcomes of requests

    def suspect(self, host: HostName, now: Instant) -> None:
        """The host refused a connection: exclude it for a while, longer each time."""
        if host != self.me and (member := self._members.get(host)):
            member.refuse(now)

    def failed(self, host: HostName, model: ModelName) -> None:
        """A response reported that the model could not start there."""
        if member := self._members.get(host):
            member.fail(model)

    def sent(self, host: HostName, model: ModelName) -> None:
        if member := self._members.get(host):
            member.sent(model)

    def note_load(self, host: HostName, model: ModelName, load: int) -> None:
        """A response reported how many requests use or want the model there."""
        if member := self._members.get(host):
            member.note_load(model, load)

    def came_back(self, host: HostName, model: ModelName) -> None:
        """A request sent there is over."""
        if member := self._members.get(host):
            member.came_back(model)
