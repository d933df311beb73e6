"""Short constructors for host records and a roster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hotseat.fleet.records import CatalogRecord, Claim, DeviceBudget, HostOrder, HostRecord, Offer, Residence, encoded
from hotseat.fleet.roster import Roster
from hotseat.fleet.store import Bucket, Change, Removed, Revision, Written
from hotseat.identifiers import ClientId, DeviceName, HostName, ModelName

if TYPE_CHECKING:
    import msgspec

    from hotseat.identifiers import Instant

GIB = 1 << 30
GPU = DeviceName("gpu0")
ALICE = ClientId("alice")
QWEN, LLAMA, GEMMA = map(ModelName, ("qwen", "llama", "gemma"))
CATALOG = "menu"
"""The digest of the catalog that all hosts have by default."""


def there(model: str, phase: str = "ready", gib: int = 8, **more: Any) -> Residence:
    return Residence(ModelName(model), phase, memory={GPU: gib * GIB}, **more)


def host(name: str, *residents: Residence, gib: int | None = 24, **more: Any) -> HostRecord:
    """A host with one device of `gib` GiB, used by its residents; None: without devices."""
    taken = sum(residence.memory[GPU] for residence in residents if residence.phase != "cold")
    devices = {} if gib is None else {GPU: DeviceBudget(gib * GIB, gib * GIB - taken)}
    facts = {"address": f"http://{name}:8080", "boot": "1", "catalog": CATALOG, "devices": devices, **more}
    return HostRecord(name=HostName(name), residents=list(residents), **facts)


def offer(gib: int = 8, **more: Any) -> Offer:
    return Offer(memory={GPU: gib * GIB}, load_s=10.0, **more)


def fleet_catalog(*names: str, **offers: Offer) -> CatalogRecord:
    return CatalogRecord({ModelName(name): offer() for name in names} | {ModelName(k): v for k, v in offers.items()})


@dataclass
class RosterRig:
    """A roster with a store: each write has a higher revision than the one before."""

    me: str = "here"
    now: Instant = 100.0
    catalog: CatalogRecord = field(default_factory=lambda: fleet_catalog("qwen", "llama", "gemma"))
    roster: Roster = field(init=False)
    changes: list[tuple[Bucket, Change]] = field(default_factory=list)
    _revisions: dict[Bucket, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self.roster = Roster(HostName(self.me))
        self.write(Bucket.CATALOGS, CATALOG, self.catalog)

    def hosts(self, *records: HostRecord) -> RosterRig:
        for record in records:
            if record.name == self.me:
                self.roster.here(record, self.catalog, self.now)
            else:
                self.write(Bucket.HOSTS, record.name, record)
        return self

    def order(self, name: str, **order: Any) -> RosterRig:
        return self.write(Bucket.ORDERS, name, HostOrder(**order))

    def claim(self, model: str, name: str, replica: int = 0, by: str = "elsewhere") -> RosterRig:
        claim = Claim(ModelName(model), HostName(name), HostName(by), "it was asked for", replica)
        return self.write(Bucket.CLAIMS, f"{model}.{replica}", claim)

    def write(self, bucket: Bucket, key: str, record: msgspec.Struct) -> RosterRig:
        return self.write_bytes(bucket, key, encoded(record))

    def write_bytes(self, bucket: Bucket, key: str, value: bytes) -> RosterRig:
        return self.apply(bucket, Written(key, value, self._next(bucket)))

    def remove(self, bucket: Bucket, key: str) -> RosterRig:
        return self.apply(bucket, Removed(key, self._next(bucket)))

    def apply(self, bucket: Bucket, change: Change) -> RosterRig:
        self.changes.append((bucket, change))
        self.roster.apply(bucket, change, self.now)
        return self

    def settle(self) -> RosterRig:
        self.roster.hosts.settle(self.now)
        return self

    def after(self, seconds: float) -> RosterRig:
        self.now += seconds
        return self

    def _next(self, bucket: Bucket) -> Revision:
        self._revisions[bucket] += 1
        return Revision(self._revisions[bucket])
