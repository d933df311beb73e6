"""Processes beside the real host of a measured fleet, which write or receive the records of its hosts.

`python -m bench.fleet.programs PROGRAM WORDS…`, where PROGRAM is one of `PROGRAMS`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any, cast

import nats
import uvloop
from msgspec.structs import replace
from nats.js import api

from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.membership import AGAIN_S, RENEW_S
from hotseat.fleet.proofs import FleetSecret, SignedStore
from hotseat.fleet.records import DeviceBudget, HostRecord, Residence, decoded, encoded
from hotseat.fleet.store import Bucket, Conflict, StoreError, Written
from hotseat.identifiers import DeviceName, HostName, ModelName
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from nats.aio.msg import Msg

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


async def inject(*urls: str) -> None:
    """Write the records of many hosts, each signed and renewed as a real host does it.

    Each line on stdin is the number of hosts from then on. Records are made after that of the real host `FIRST`: the
    same catalog, version and devices, and four models of its own.
    """
    store = JetStream(Fleet(tuple(urls), HostName("injected"), secrets=(SECRET,)))
    store.open()
    assert await store.until_connected(CONNECT_S)
    hosts = InjectedHosts(SignedStore(store, FleetSecret([SECRET])))
    while line := await asyncio.to_thread(sys.stdin.readline):
        await hosts.set_number(int(line))


PARTS = ("nats-py", "watch", "signatures")
"""Each includes the ones before it."""


class Received:
    count = 0

    async def by_nats_py(self, urls: Sequence[str]) -> None:
        """A subscription with the consumer that a host has, and nothing else."""

        async def count(_: Msg) -> None:
            self.count += 1

        client = await nats.connect(list(urls))
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=count)
        config = api.ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=api.DeliverPolicy.NEW,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
        )
        await client.jetstream().add_consumer(stream_of(Bucket.HOSTS), config)
        await asyncio.Event().wait()

    async def by_watch(self, urls: Sequence[str]) -> None:
        async for change in (await opened(urls)).watch(Bucket.HOSTS):
            self.count += isinstance(change, Written)

    async def by_signatures(self, urls: Sequence[str]) -> None:
        async for change in SignedStore(await opened(urls), FleetSecret([SECRET])).watch(Bucket.HOSTS):
            self.count += isinstance(change, Written)


async def opened(urls: Sequence[str]) -> JetStream:
    store = JetStream(Fleet(tuple(urls), HostName("receiver"), secrets=(SECRET,)))
    store.open()
    assert await store.until_connected(CONNECT_S)
    return store


async def receive(part: str, *urls: str) -> None:
    """Receive every host's record and do only a part of what a host does with it.

    Each line on stdin is answered with the messages received so far and the processor time so far.
    """
    received = Received()
    ways: dict[str, Callable[[Sequence[str]], Coroutine[Any, Any, None]]] = {
        "nats-py": received.by_nats_py,
        "watch": received.by_watch,
        "signatures": received.by_signatures,
    }
    tasks = Tasks()
    tasks.start(ways[part](urls), f"receive by {part}")
    while await asyncio.to_thread(sys.stdin.readline):
        print(received.count, process_time(), flush=True)
    await tasks.aclose()


CONNECT = b'CONNECT {"verbose":false,"headers":true}\r\n'
PING, PONG = b"PING\r\n", b"PONG\r\n"


class Listener(asyncio.Protocol):
    def __init__(self, number: int) -> None:
        self._number = number
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(CONNECT + subscription(self._number))

    def data_received(self, data: bytes) -> None:
        if PING in data:
            self._transport.write(PONG)


def subscription(number: int) -> bytes:
    """A subscription, and a consumer that sends the records of all hosts to it."""
    stream, name = stream_of(Bucket.HOSTS), f"crowd-{number}"
    config = {
        "name": name,
        "deliver_subject": name,
        "deliver_policy": "new",
        "ack_policy": "none",
        "mem_storage": True,
        "num_replicas": 1,
        "replay_policy": "instant",
        "inactive_threshold": 10_000_000_000,
    }
    asking = json.dumps({"stream_name": stream, "config": config}).encode()
    subject = f"$JS.API.CONSUMER.CREATE.{stream}.{name}"
    return b"SUB %b 1\r\nPUB %b %d\r\n%b\r\n" % (name.encode(), subject.encode(), len(asking), asking)


async def listen(connections: str, address: str) -> None:
    """Listen to every host's record over many connections, and ignore it; end with stdin.

    It shows what NATS has to do for many hosts, and costs far less than they would.
    """
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    for number in range(int(connections)):
        await loop.create_connection(lambda number=number: Listener(number), host, int(port))  # type: ignore[misc]
    await asyncio.to_thread(sys.stdin.read)


PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"inject": inject, "receive": receive, "listen": listen}

if __name__ == "__main__":
    uvloop.run(PROGRAMS[sys.argv[1]](*sys.argv[2:]))
