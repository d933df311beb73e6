"""One real host in a fleet of hundreds: the others are records on a real NATS server, and no process runs for them."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from tests.support import unasking_host
from tests.support.changed_program import changed_program
from tests.support.fleet_journey import CONNECT_S, Hosts, nats_cluster
from tests.support.hotseat import Hotseat
from tests.support.waiting import eventually

from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.proofs import FleetSecret, SignedStore
from hotseat.fleet.records import DeviceBudget, HostRecord, Residence, encoded
from hotseat.fleet.store import LIVES_S, Bucket
from hotseat.identifiers import RAM, DeviceName, HostName, ModelName
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.support.nats import NatsServer

GIB = 1 << 30
KEPT_S = 3600.0
"""Nobody renews the records, so their leases last longer than any test."""
SECRET = "hush"
CARDS = ("h100", "a100", "l40s")
LOADING_SHARE = 0.05
GPUS = tuple(DeviceName(f"gpu{number}") for number in range(4))


@contextmanager
def among_records(
    folder: Path, name: str, records: Callable[[str], Sequence[HostRecord]], models: Mapping[str, Any], **keys: Any
) -> Iterator[Hotseat]:
    """A running host that knows the hosts of these records, which are made for the digest of its configuration."""
    with ExitStack() as stack:
        servers = stack.enter_context(nats_cluster(folder / "nats", 1))
        asyncio.run(write(servers, ()))  # the first connection decides how long leases last
        program = partial(Hotseat, program=changed_program(folder, unasking_host))
        host = Hosts(folder, servers, stack, program).start(name, models, {"secret": SECRET}, **keys)
        [own] = eventually(lambda: hosts_known_to(host), within=CONNECT_S)
        written = records(own["config_digest"])
        asyncio.run(write(servers, written))
        eventually(lambda: len(hosts_known_to(host)) > len(written), within=CONNECT_S)
        yield host


def hosts_known_to(host: Hotseat) -> list[dict[str, Any]]:
    hosts: list[dict[str, Any]] = host.call("GET", "/hotseat/fleet").json()["hosts"]
    return hosts


async def write(servers: Sequence[NatsServer], records: Sequence[HostRecord]) -> None:
    fleet = Fleet(tuple(server.url for server in servers), HostName("records"))
    store = JetStream(fleet, patience_s=CONNECT_S, lives_s={**LIVES_S, Bucket.HOSTS: KEPT_S})
    store.open()
    try:
        assert await store.until_connected(CONNECT_S)
        signed = SignedStore(store, FleetSecret([SECRET]))
        for record in records:
            await signed.put(Bucket.HOSTS, record.name, encoded(record))
    finally:
        await store.aclose()


def host_record(number: int, catalog: str, models: Sequence[str]) -> HostRecord:
    """A host with four GPUs that has these models; the same for the same number."""
    chance = Random(number)
    residents = [residence(model, GPUS[place % len(GPUS)], chance) for place, model in enumerate(models)]
    used = {gpu: sum(each.memory.get(gpu, 0) for each in residents) for gpu in GPUS}
    devices = {gpu: DeviceBudget(80 * GIB, 80 * GIB - used[gpu]) for gpu in GPUS}
    return HostRecord(
        name=HostName(f"gpu{number:03}"),
        address=f"http://gpu{number:03}.lan:8080",
        boot="1",
        catalog=catalog,
        labels={"gpu": CARDS[number % len(CARDS)], "rack": f"r{number // 20:02}"},
        devices={**devices, RAM: DeviceBudget(512 * GIB, chance.randint(100, 500) * GIB)},
        residents=residents,
    )


def residence(model: str, gpu: DeviceName, chance: Random) -> Residence:
    memory = {gpu: chance.randint(2, 26) * GIB}
    if chance.random() < LOADING_SHARE:
        return Residence(ModelName(model), "loading", memory=memory, waiting=chance.randint(1, 3))
    return Residence(ModelName(model), "ready", memory=memory, in_flight=chance.randrange(4))
