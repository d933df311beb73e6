"""PURE: what this host knows about the fleet, from the store and from the outcome of its own requests.

It is about the hosts that are there or expected back, their models and the orders for them. All of it arrives at the
roster; its parts answer.

Each host owns the truth about itself; this is the last known state. Two rosters with the same changes agree, whatever
arrived twice, late or after an interruption. Only this host's own record does not come from the store: `here` sets it,
even while the store is unreachable, until another process of this host writes it.
"""

from __future__ import annotations

from bisect import bisect
from hashlib import blake2b
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, assert_never

from hotseat.catalog.template import address_of
from hotseat.fleet.catalog import FleetCatalog
from hotseat.fleet.claim_table import CLAIM_S, SETTLING_S, ClaimTable, Held, take
from hotseat.fleet.member import LEAVING, Member
from hotseat.fleet.records import CatalogRecord, Claim, HostOrder, HostRecord, decoded
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.store import LEASE_S, BegunAnew, Bucket, CaughtUp, Removed, Revision, Written
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, KeysView

    from hotseat.fleet.member import PathState
    from hotseat.fleet.records import Offer, Residence
    from hotseat.fleet.store import Change
    from hotseat.identifiers import Instant, ModelName, Seconds

MOST_UNREACHABLE, LONGEST_REASON = 16, 200
"""Published with each record: hosts, and characters of each reason."""
KNOWN_S: Seconds = 600.0
"""A host that has left is expected back for this long: the time of a restart or an upgrade of its machine."""
MOST_KNOWN = 10_000
"""Above this number of hosts, the oldest revocations are forgotten."""
NO_ORDER = HostOrder()


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


class PresentHosts:
    """The hosts that are there, by name, by catalog and by the models on them."""

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


class HostsByCatalog:
    """The present hosts by their catalog, and the order in which they are considered for a model.

    Iterates over the digests of catalogs that a host has.
    """

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


class Left(NamedTuple):
    catalog: str
    until: Instant


class Absences:
    """Hosts whose record has ended: unconfirmed while the store was just interrupted, else absent.

    A lease cannot be renewed while the store is away, and a store that lost its state has no records at all. So for one
    lease after an interruption a missing record means nothing: its host is kept as it was.
    """

    def __init__(self) -> None:
        self._confirmed_by: Instant = float("-inf")
        self._unconfirmed: dict[HostName, None] = {}
        self._left: dict[HostName, Left] = {}

    def interrupted(self, now: Instant) -> None:
        """The state is sent again: hosts have one lease to renew theirs."""
        self._confirmed_by = now + LEASE_S

    def is_unconfirmed(self, host: HostName, now: Instant) -> bool:
        """Its record is missing: may the interruption be the reason?"""
        if now >= self._confirmed_by:
            return False
        self._unconfirmed[host] = None
        return True

    def present(self, host: HostName) -> None:
        self._unconfirmed.pop(host, None)
        self._left.pop(host, None)

    def left(self, host: HostName, catalog: str, now: Instant) -> None:
        self._left[host] = Left(catalog, now + KNOWN_S)

    def expects(self, host: HostName) -> bool:
        return host in self._left

    def overdue(self, now: Instant) -> list[HostName]:
        """Those that have not renewed their lease in time, each once."""
        if not self._unconfirmed or now < self._confirmed_by:
            return []
        overdue, self._unconfirmed = [*self._unconfirmed], {}
        return overdue

    def expired(self, now: Instant) -> list[str]:
        """The catalogs of hosts that are no longer expected back, each once."""
        gone = [host for host, left in self._left.items() if left.until <= now]
        return [self._left.pop(host).catalog for host in gone]

    def catalogs(self) -> Iterator[str]:
        """Of hosts that are expected back."""
        return (left.catalog for left in self._left.values())


class KnownNames:
    """The names of models: those that a present host may run, and those of hosts that are expected back."""

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


class HostOrders:
    """Operators' orders for hosts, as far as this host knows them."""

    def __init__(self, me: HostName, own: HostOrder, present: Collection[HostName], stored: Ledger) -> None:
        """`present` are the hosts of the fleet, and `stored` has the hosts whose order the store has, at any time."""
        self._me, self._present, self._stored = me, present, stored
        self._orders = {} if own == NO_ORDER else {me: own}
        self._outdated: set[HostName] = set()
        """Hosts for which the store has an older order: somebody who did not hear of the later one wrote it again."""

    def put(self, host: HostName, order: HostOrder) -> None:
        """Nobody removes an order: one that the store has lost still holds, and so does one that is later."""
        if order.is_older_than(self.of(host)):
            self._outdated.add(host)
            return
        self._outdated.discard(host)
        self._orders.pop(host, None)  # so that the oldest are the first
        self._orders[host] = order
        if len(self._orders) > MOST_KNOWN:
            revoked = (each for each, known in self._orders.items() if not known.is_given)
            if oldest := next(revoked, None):
                del self._orders[oldest]

    def of(self, host: HostName) -> HostOrder:
        return self._orders.get(host, NO_ORDER)

    def awaited(self) -> list[HostName]:
        """Absent hosts that have orders."""
        return [host for host, order in self._orders.items() if order.is_given and host not in self._present]

    def lost(self) -> Iterator[tuple[HostName, HostOrder]]:
        """Orders that this host writes again: those of which the store has an older one, and of those that it has lost
        this host's own and some of absent hosts'."""
        for host, order in self._orders.items():
            if host in self._outdated or (host not in self._stored and self._writes_for(host)):
                yield host, order

    def _writes_for(self, host: HostName) -> bool:
        """A host that is present writes its own; one of the others writes those of an absent host."""
        return host == self._me or (host not in self._present and owner(host, self._present) == self._me)


def rendezvous_score(subject: str, host: HostName) -> int:
    """Each pair of a subject and a host has one; the host with the highest owns the subject.

    So every host makes the same choice among equals, without shared state. When a host joins or leaves, only the
    subjects that it owns or owned change hosts.
    """
    digest = blake2b(f"{subject}\0{host}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def owner(subject: str, hosts: Iterable[HostName]) -> HostName:
    return max(hosts, key=lambda host: (rendezvous_score(subject, host), host))
