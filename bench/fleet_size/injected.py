"""A process that writes the records of many hosts to NATS, each signed and renewed as a real host does it.

`python -m bench.fleet_size.injected NATS…`; each line on stdin is the number of hosts from then on. The records are
made after that of the real host `FIRST`: the same catalog, version and devices, and four models of its own.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import uvloop
from msgspec.structs import replace

from hotseat.fleet.host_proof import FleetSecret
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.membership import AGAIN_S, RENEW_S
from hotseat.fleet.records import DeviceBudget, HostRecord, Residence, decoded, encoded
from hotseat.fleet.signing import SignedStore
from hotseat.fleet.store import Bucket, Conflict, StoreError
from hotseat.identifiers import DeviceName, HostName, ModelName
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.fleet.store import Revision, Store

SECRET, FIRST = "hush", HostName("first")
RESIDENTS, GIB = 4, 1 << 30
GPU = DeviceName("gpu0")
CONNECT_S = 60.0


def name_of(number: int) -> HostName:
    return HostName(f"gpu-{number:04}")


def record_of(first: HostRecord, number: int, age_s: float) -> HostRecord:
    """A full host: one of its models has just been used, the others a while ago."""
    residents = [
        Residence(
            ModelName(f"model-{(number * RESIDENTS + n) % 1000:05}"),
            "ready",
            {GPU: 5 * GIB},
            in_flight=int(n == 0),
            slots=4,
            idle_s=round(n * 31.7 + age_s, 1) if n else 0.0,
            load_s=8.53,
        )
        for n in range(RESIDENTS)
    ]
    name, address = name_of(number), f"http://{name_of(number)}.example.org:8080"
    devices = {GPU: DeviceBudget(24 * GIB, 4 * GIB)}
    return replace(first, name=name, address=address, devices=devices, residents=residents)


class InjectedHosts:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._chance = Random(1)
        self._first: HostRecord | None = None
        self._tasks = Tasks()
        self._renewals: list[asyncio.Task[None]] = []

    async def set_number(self, number: int) -> None:
        """Hosts that are no longer wanted end when their lease does."""
        for renewal in self._renewals[number:]:
            renewal.cancel()
        del self._renewals[number:]
        if number and self._first is None:
            self._first = await self._first_record()
        for n in range(len(self._renewals), number):
            self._renewals.append(self._tasks.start(self._keep(n), f"renew {name_of(n)}"))

    async def _first_record(self) -> HostRecord:
        found = await self._store.read(Bucket.HOSTS, FIRST)
        assert found is not None, "the real host joins first"
        return decoded(found.value, HostRecord)

    async def _keep(self, number: int) -> None:
        """Renew at the pace of `hotseat.fleet.membership`, beginning at a random time."""
        assert self._first is not None
        await asyncio.sleep(self._chance.uniform(0, RENEW_S))
        loop, last = asyncio.get_running_loop(), None
        begun = loop.time()
        while True:
            record = record_of(self._first, number, loop.time() - begun)
            last = await self._renewed(record, last)
            await asyncio.sleep(AGAIN_S if last is None else RENEW_S)

    async def _renewed(self, record: HostRecord, last: Revision | None) -> Revision | None:
        with suppress(Conflict, StoreError):
            if last is None:
                return await self._store.put(Bucket.HOSTS, record.name, encoded(record))
            return await self._store.replace(Bucket.HOSTS, record.name, encoded(record), last)
        return None


async def run(urls: Sequence[str]) -> None:
    store = JetStream(Fleet(tuple(urls), HostName("injected"), secrets=(SECRET,)))
    store.open()
    assert await store.until_connected(CONNECT_S)
    hosts = InjectedHosts(SignedStore(store, FleetSecret([SECRET])))
    while line := await asyncio.to_thread(sys.stdin.readline):
        await hosts.set_number(int(line))


if __name__ == "__main__":
    uvloop.run(run(sys.argv[1:]))
