"""The cost for a host of tracking the others and of deciding, by the size of its fleet.

The best of several rounds, to minimise the influence of other programs.
"""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING

from bench.fleet_simulation.fleet import DIGEST, catalog_of
from bench.fleet_simulation.host import GIB, GPU
from bench.fleet_simulation.workload import SLOTS, workload

from hotseat.fleet.placement import Load, Serve, place
from hotseat.fleet.records import DeviceBudget, HostRecord, Residence, encoded
from hotseat.fleet.roster import Roster
from hotseat.fleet.store import Bucket, Revision, Written
from hotseat.identifiers import ClientId, HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fleet_simulation.workload import Workload

MODELS = 10_000
RESIDENTS = 4
SIZES = (10, 100, 500, 1000, 5000)
REPLICAS = 8
"""Of the first model; all others are on one host, or on none."""
ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Cost:
    hosts: int
    apply_us: float
    serve_us: float
    serve_replicas_us: float
    load_us: float
    roster_mb: float
    catalog_kb: float
    record_bytes: float


def costs() -> list[Cost]:
    return [cost_of(hosts) for hosts in SIZES]


def cost_of(hosts: int) -> Cost:
    work = workload(hosts, MODELS, 1, seed=1)
    catalog = encoded(catalog_of(work))
    records = [record_of(work, n) for n in range(hosts)]
    gc.collect()
    tracemalloc.start()
    roster = roster_of(catalog, records)
    roster_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    client, cold = ClientId("alice"), ModelName(f"m{MODELS - 1:05}")
    assert isinstance(place(ModelName("m00001"), client, roster, 1.0), Serve)
    assert isinstance(place(cold, client, roster, 1.0), Load)
    return Cost(
        hosts,
        best_us(lambda: roster_of(b"", records), hosts),
        best_us(lambda: repeat(lambda: place(ModelName("m00001"), client, roster, 1.0), 200), 200),
        best_us(lambda: repeat(lambda: place(ModelName("m00000"), client, roster, 1.0), 200), 200),
        best_us(lambda: repeat(lambda: place(cold, client, roster, 1.0), 5), 5),
        roster_bytes / 1e6,
        len(catalog) / 1e3,
        sum(map(len, records)) / hosts,
    )


def record_of(work: Workload, number: int) -> bytes:
    """A full host, so that a load must look for the cheapest eviction."""
    names = ["m00000"] if number < REPLICAS else []
    names += [f"m{1 + (number * RESIDENTS + n) % (MODELS - 2):05}" for n in range(RESIDENTS - len(names))]
    machine = work.machines[number]
    share = machine.gib * GIB // RESIDENTS
    residents = [
        Residence(
            ModelName(name),
            "ready",
            {GPU: share},
            in_flight=int(n == 0),
            slots=SLOTS,
            idle_s=float(number % 97 + n),
            load_s=8.5,
        )
        for n, name in enumerate(names)
    ]
    return encoded(
        HostRecord(
            name=machine.name,
            address=f"http://{machine.name}.fleet:8080",
            boot="1",
            catalog=DIGEST,
            labels={"site": machine.site} if machine.site else {},
            devices={GPU: DeviceBudget(machine.gib * GIB, 0)},
            residents=residents,
        )
    )


def roster_of(catalog: bytes, records: list[bytes]) -> Roster:
    roster = Roster(HostName("nobody"))
    if catalog:
        roster.apply(Bucket.CATALOGS, Written(DIGEST, catalog, Revision(1)), 0.0)
    for number, record in enumerate(records):
        roster.apply(Bucket.HOSTS, Written(f"h{number:04}", record, Revision(number + 1)), 0.0)
    return roster


def repeat(doing: Callable[[], object], times: int) -> None:
    for _ in range(times):
        doing()


def best_us(doing: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begun = process_time()
        doing()
        best = min(best, process_time() - begun)
    return best / times * 1e6
