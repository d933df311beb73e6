"""PURE: what this host knows about the fleet, from the store and from the outcome of its own requests. It arrives at
the roster; its parts answer.

Each host owns the truth about itself; this is the last known state. Two rosters with the same changes agree, whatever
arrived twice, late or after an interruption. Only this host's own record does not come from the store: `here` sets it,
even while the store is unreachable, until another process of this host writes it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, assert_never

from hotseat.catalog.template import address_of
from hotseat.fleet.catalog import FleetCatalog
from hotseat.fleet.claim_table import CLAIM_S, SETTLING_S, ClaimTable, Held
from hotseat.fleet.host_orders import NO_ORDER, HostOrders
from hotseat.fleet.known_names import KnownNames
from hotseat.fleet.present_hosts import PresentHosts
from hotseat.fleet.records import CatalogRecord, Claim, HostOrder, HostRecord, decoded
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.store import BegunAnew, Bucket, CaughtUp, Removed, Revision, Written
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.fleet.member import Member, PathState
    from hotseat.fleet.records import Offer
    from hotseat.fleet.store import Change
    from hotseat.identifiers import Instant, ModelName


MOST_UNREACHABLE, LONGEST_REASON = 16, 200
"""Published with each record: hosts, and characters of each reason."""


class Roster:
    def __init__(self, me: HostName, order: HostOrder = NO_ORDER) -> None:
        """`order` is what this host knows of its own orders before it reaches the store."""
        self.me = me
        self.malformed = 0
        """Records that were ignored: another version or another program wrote them."""
        self._ledgers = {bucket: Ledger() for bucket in Bucket}
        self._own_catalog = ""
        self._described_here: HostName | None = me
        """The host whose record `here` sets; None: the store has the records of all hosts."""
        self.catalog = FleetCatalog()
        self.hosts = PresentHosts(me, self.catalog, self._ledgers[Bucket.CATALOGS])
        self.claims = ClaimTable(self.hosts.shows)
        self.orders = HostOrders(me, order, self.hosts.names(), self._ledgers[Bucket.ORDERS])
        self.names = KnownNames(self.catalog, self.hosts.by_catalog, self.hosts.absences)

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
                    self.hosts.absences.interrupted(now)
            case CaughtUp():
                for key in ledger.caught_up():
                    self._remove(bucket, key, now)
            case _:
                assert_never(change)

    def agreed(self, key: str, claim: Claim, revision: Revision, now: Instant) -> None:
        """A claim that this host has just made or read.

        Its revision may be lower than a known one: that of a store that has lost its state, as the watch has not
        reported yet, or of a claim that has ended meanwhile. So it counts for a moment in any case.
        """
        is_later = self._ledgers[Bucket.CLAIMS].wrote(key, revision)
        if is_later or not self.claims.has(key, claim):
            self.claims.put(Held(key, claim, revision, now + (CLAIM_S if is_later else SETTLING_S)))

    def here(self, record: HostRecord, catalog: CatalogRecord, now: Instant) -> None:
        """Set this host's own record; the store's copy of it is ignored until `follow_own_record`."""
        self._own_catalog = record.catalog
        self.catalog.put(record.catalog, catalog)
        self.hosts.update(record, Revision(0), now)

    def follow_own_record(self) -> None:
        """Another process of this host writes its record from now on: the store's copy counts, and `here` ends."""
        self._described_here = None

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
                    self.hosts.update(self._record_of(HostName(key), value), revision, now)
            case Bucket.CLAIMS:
                self.claims.put(Held(key, decoded(value, Claim), revision, now + CLAIM_S))
            case Bucket.CATALOGS:
                if key != self._own_catalog:
                    self.catalog.put(key, decoded(value, CatalogRecord))
            case Bucket.ORDERS:
                self.orders.put(HostName(key), decoded(value, HostOrder))
            case _:
                assert_never(bucket)

    def _remove(self, bucket: Bucket, key: str, now: Instant) -> None:
        match bucket:
            case Bucket.HOSTS:
                self.hosts.miss(HostName(key), now)
            case Bucket.CLAIMS:
                self.claims.let_go(key, now)
            case Bucket.CATALOGS:
                self.hosts.drop_unknown(key)
            case Bucket.ORDERS:
                pass  # nobody removes an order: the store has lost it, and it still holds
            case _:
                assert_never(bucket)

    def _record_of(self, key: HostName, value: bytes) -> HostRecord:
        record = decoded(value, HostRecord)
        if record.name != key:
            raise ValueError(f"the record of {record.name} is under the key of {key}")
        known = self.hosts.get(key)
        if known is None or known.record.address != record.address:  # it takes longer than all else here
            address_of(record.address)  # raises if invalid: a request must never be routed to such a host
        return record

    # Queries

    def offering(self, model: ModelName) -> Iterator[tuple[Member, Offer]]:
        """Hosts with the model in their catalog: this host, then the others in an order specific to the model."""
        for digest, offer in self.catalog.offers(model):
            for member in self.hosts.by_catalog.in_order(digest, model, self.me):
                yield member, offer

    def offer(self, member: Member, model: ModelName) -> Offer | None:
        return self.catalog.offer(member.record.catalog, model)

    def unreachable(self, now: Instant) -> dict[HostName, str]:
        """Some of the hosts that get no requests from here because of a known problem, which is the value."""
        broken = (member for member in self.hosts if member.problem and member.is_shunned(now))
        return {member.name: member.problem[:LONGEST_REASON] for member in islice(broken, MOST_UNREACHABLE)}

    # Outcomes of requests

    def suspect(self, host: HostName, now: Instant, problem: str = "") -> None:
        """The host refused or broke a connection, or did not answer: exclude it for a while, longer each time."""
        if host != self.me and (member := self.hosts.get(host)):
            member.refuse(now, problem)

    def note_path(self, host: HostName, path: PathState) -> None:
        if member := self.hosts.get(host):
            member.path = path

    def answered(self, host: HostName) -> None:
        """It answers again."""
        if member := self.hosts.get(host):
            member.answer()

    def failed(self, host: HostName, model: ModelName) -> None:
        """A response reported that the model could not start there."""
        if member := self.hosts.get(host):
            member.fail(model)

    def sent(self, host: HostName, model: ModelName) -> None:
        if member := self.hosts.get(host):
            member.sent(model)

    def note_load(self, host: HostName, model: ModelName, load: int) -> None:
        """A response reported how many requests use or want the model there."""
        if member := self.hosts.get(host):
            member.note_load(model, load)

    def came_back(self, host: HostName, model: ModelName) -> None:
        """A request sent there is over."""
        if member := self.hosts.get(host):
            member.came_back(model)
