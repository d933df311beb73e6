"""The cost of agreement on three real NATS servers, and of a request that is forwarded to another host.

The store is compared with bare nats-py, and when a leader is killed. For forwarding, two hosts have a C program as a
model server, and the same load comes in turn to the host that has the model and to the other one: the CPU time of both
hosts is compared with that of one that serves its own.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import statistics
import time
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import nats
import nats.errors
from bench.relay.loads import Requests, chat
from bench.relay.tools import bench_command
from bench.report import Rows, Verdict
from tests.support.fleet_journey import Hosts, nats_cluster
from tests.support.nats import nats_servers
from tests.support.ports import free_port
from tests.support.processes import proc_file

from hotseat.fleet.jetstream.buckets import stream_of
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.membership import RENEW_S
from hotseat.fleet.records import Claim, HostRecord, Residence, encoded
from hotseat.fleet.store import LEASE_S, Bucket, CaughtUp, Removed, StoreError, Written
from hotseat.identifiers import HostName, ModelName, Seconds
from hotseat.settings import Fleet

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from nats.js import JetStreamContext
    from tests.support.hotseat import Hotseat
    from tests.support.nats import NatsServer

SERVERS = 3
LEASES = 8
DURABLE = ", sync_interval: always"
PATIENCE_S: Seconds = 60.0
MOST = 2.0
"""The limit for a placement, as a multiple of a bare compare-and-swap."""
MOST_PASSED_ON = 2.5
"""The limit for a forwarded request, both hosts together, as a multiple of one served where it arrived: two relays, and
a proof of the sender that is signed and checked for every request."""

CLAIM = encoded(Claim(ModelName("qwen3-30b-a3b"), HostName("gpu1"), HostName("gpu2"), "gpu1 has room"))
RECORD = encoded(
    HostRecord(
        HostName("gpu1"),
        "http://gpu1.lan:8080",
        "0123456789abcdef",
        "0" * 32,
        residents=[Residence(ModelName(f"model-{n}"), "ready", in_flight=3, slots=8, load_s=12.5) for n in range(6)],
    )
)


@dataclass
class Outcome:
    """All measurements, in seconds."""

    bare: list[Seconds] = field(default_factory=list)
    ours: list[Seconds] = field(default_factory=list)
    """The median placement of each round."""
    renewals: list[Seconds] = field(default_factory=list)
    renewals_per_s: float = 0.0
    noticed: list[Seconds] = field(default_factory=list)
    """From a write to a watcher."""
    expiries: list[Seconds] = field(default_factory=list)
    """From the end of the lease until a watcher is notified."""
    bare_kills: list[Seconds] = field(default_factory=list)
    our_kills: list[Seconds] = field(default_factory=list)
    """From the kill of a leader to the next claim."""


@asynccontextmanager
async def fleet_of(servers: list[NatsServer]) -> AsyncIterator[JetStream]:
    store = JetStream(Fleet(tuple(server.url for server in servers), HostName("bench")))
    store.open()
    try:
        assert await store.until_connected(PATIENCE_S)
        yield store
    finally:
        await store.aclose()


async def measured(folder: Path, rounds: int, placements: int, kills: int) -> Outcome:
    outcome = Outcome()
    async with nats_servers(folder, SERVERS, storage=DURABLE) as servers, fleet_of(servers) as store:
        client = await nats.connect([server.url for server in servers], error_cb=ignored)
        try:
            js = client.jetstream()
            await place(js, store, outcome, rounds, placements)
            await renew(store, outcome, placements)
            await expire(store, outcome)
            for _ in range(kills):
                await kill_leader(js, store, servers, outcome)
        finally:
            await client.close()
    return outcome


async def ignored(_: Exception) -> None:
    """A killed server is expected here."""


# Placements


async def place(js: JetStreamContext, store: JetStream, outcome: Outcome, rounds: int, placements: int) -> None:
    """Alternate both sides on the same bucket, so that both have the same conditions."""
    kv = await js.key_value("hotseat-claims")

    async def bare(key: str) -> None:
        await kv.update(key, CLAIM, last=await kv.create(key, CLAIM))

    async def ours(key: str) -> None:
        await store.replace(Bucket.CLAIMS, key, CLAIM, await store.create(Bucket.CLAIMS, key, CLAIM))

    for n in range(rounds):
        outcome.bare.append(await median_of(bare, f"bare{n}", placements))
        outcome.ours.append(await median_of(ours, f"ours{n}", placements))


async def median_of(work: Callable[[str], Awaitable[None]], name: str, times: int) -> Seconds:
    took = []
    for n in range(times):
        began = time.perf_counter()
        await work(f"{name}.{n}")
        took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2]


# Leases


async def renew(store: JetStream, outcome: Outcome, times: int) -> None:
    """Renewals of one host one after the other, and a watcher's delay; then sixteen hosts at once."""
    watch = aiter(store.watch(Bucket.HOSTS))
    while not isinstance(await anext(watch), CaughtUp):
        pass
    last = await store.put(Bucket.HOSTS, "gpu1", RECORD)
    await anext(watch)
    for _ in range(times):
        began = time.perf_counter()
        renewing = asyncio.gather(store.replace(Bucket.HOSTS, "gpu1", RECORD, last))
        assert isinstance(await anext(watch), Written)
        outcome.noticed.append(time.perf_counter() - began)
        (last,) = await renewing
    outcome.renewals = [await timed_renewal(store) for _ in range(times)]
    began = time.perf_counter()
    await asyncio.gather(*(renew_often(store, f"host{n}", times) for n in range(16)))
    outcome.renewals_per_s = 16 * times / (time.perf_counter() - began)
    await watch.aclose()  # type: ignore[attr-defined]  # it is a generator


async def timed_renewal(store: JetStream) -> Seconds:
    began = time.perf_counter()
    await store.put(Bucket.HOSTS, "gpu1", RECORD)
    return time.perf_counter() - began


async def renew_often(store: JetStream, name: str, times: int) -> None:
    for _ in range(times):
        await store.put(Bucket.HOSTS, name, RECORD)


async def expire(store: JetStream, outcome: Outcome) -> None:
    """Leases that are not renewed, started at different times."""
    ends: dict[str, float] = {}
    watch = aiter(store.watch(Bucket.HOSTS))
    while not isinstance(await anext(watch), CaughtUp):
        pass
    for n in range(LEASES):
        await store.put(Bucket.HOSTS, f"dying{n}", RECORD)
        ends[f"dying{n}"] = time.perf_counter() + LEASE_S
        await asyncio.sleep(RENEW_S / LEASES)
    while ends:
        change = await anext(watch)
        if isinstance(change, Removed) and change.key in ends:
            outcome.expiries.append(time.perf_counter() - ends.pop(change.key))
    await watch.aclose()  # type: ignore[attr-defined]  # it is a generator


# A leader is killed


async def kill_leader(js: JetStreamContext, store: JetStream, servers: list[NatsServer], outcome: Outcome) -> None:
    """Both sides retry from the same moment on."""
    info = await js.stream_info(stream_of(Bucket.CLAIMS))
    assert info.cluster is not None
    leader = next(server for server in servers if server.name == info.cluster.leader)
    kv = await js.key_value("hotseat-claims")
    key = f"kill{len(outcome.our_kills)}"
    leader.kill()
    bare, ours = await asyncio.gather(
        claimed(lambda: kv.put(f"{key}.bare", CLAIM)), claimed(lambda: store.put(Bucket.CLAIMS, f"{key}.ours", CLAIM))
    )
    outcome.bare_kills.append(bare)
    outcome.our_kills.append(ours)
    leader.start()
    for server in servers:
        await server.until_healthy()


async def claimed(claim: Callable[[], Awaitable[object]]) -> Seconds:
    began = time.perf_counter()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await claim()
            except (StoreError, nats.errors.Error):
                await asyncio.sleep(0.02)
            else:
                return time.perf_counter() - began


CLIENTS = 16
SECONDS = 2
CHAT = "/v1/chat/completions"
US = 1e6 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Forwarded:
    """CPU-µs per request in one round."""

    local: float
    passing: float
    """At the host that forwards it."""
    serving: float
    """At the host that serves it."""

    @property
    def times_local(self) -> float:
        return (self.passing + self.serving) / self.local


def forwarded(folder: Path, rounds: int) -> list[Forwarded]:
    with ExitStack() as stack:
        nats = stack.enter_context(nats_cluster(folder / "nats", 1))
        hosts = Hosts(folder, nats, stack)
        port = free_port()
        hosts.start("near", {"bench": {"cmd": shlex.join(bench_command(port)), "proxy": f"http://127.0.0.1:{port}"}})
        hosts.start("far", {"other": {"cmd": "never-run ${PORT}"}})
        hosts.until_connected()
        load = Requests(CHAT, chat(1024), folder)
        for host in (hosts["near"], hosts["far"]):  # fills the head caches and loads the model
            load.send(host.port, CLIENTS, 1)
        return [one_round(load, hosts["near"], hosts["far"]) for _ in range(rounds)]


def one_round(load: Requests, near: Hotseat, far: Hotseat) -> Forwarded:
    (local,) = cost(load, near, near)
    passing, serving = cost(load, far, far, near)
    return Forwarded(local, passing, serving)


def cost(load: Requests, asked: Hotseat, *weighed: Hotseat) -> list[float]:
    """CPU-µs per request of each host, while `asked` gets the load."""
    before = [ticks(host) for host in weighed]
    answered = load.send(asked.port, CLIENTS, SECONDS)
    return [(ticks(host) - began) * US / answered.count for host, began in zip(weighed, before, strict=True)]


def ticks(host: Hotseat) -> int:
    """Of the process itself, without its guard and its model servers."""
    fields = proc_file(host.process.pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12])


# The report


def ratios(outcome: Outcome) -> list[float]:
    """Per round, because the machine's speed varies."""
    return [ours / bare for ours, bare in zip(outcome.ours, outcome.bare, strict=True)]


def run(folder: Path, options: argparse.Namespace) -> tuple[dict[str, Rows], list[Verdict]]:
    requests = forwarded(folder, options.rounds)
    outcome = asyncio.run(measured(folder / "store", options.rounds, options.placements, options.kills))
    promises = {
        "a placement, relative to bare nats-py": (ratios(outcome), MOST),
        "a forwarded request, both hosts together, relative to one": (
            [each.times_local for each in requests],
            MOST_PASSED_ON,
        ),
    }
    verdicts = [
        Verdict(promise, f"{most:g} or less", f"{statistics.median(found):.2f}", statistics.median(found) <= most)
        for promise, (found, most) in promises.items()
    ]
    return {"Agreement": agreement_rows(outcome), "Forwarded requests": forwarded_rows(requests)}, verdicts


def agreement_rows(outcome: Outcome) -> Rows:
    return [
        ["", "median", "lowest and highest"],
        row("a placement by bare nats-py", outcome.bare, "ms", 2),
        row("a placement by hotseat's store", outcome.ours, "ms", 2),
        row("ratio, round by round", ratios(outcome), "×", 2),
        row("renewal of a lease", outcome.renewals, "ms", 2),
        row("until another host has received it", outcome.noticed, "ms", 2),
        row(f"end of a lease that is not renewed, beyond its {LEASE_S:.0f} s", outcome.expiries, "ms", 0),
        row("first write after the leader of the claims is killed", outcome.our_kills, "s", 1),
        row("the same by bare nats-py, at the same time", outcome.bare_kills, "s", 1),
        ["renewals per second by one connection", f"{outcome.renewals_per_s:,.0f}", ""],
        ["… so many hosts renew as often", f"{outcome.renewals_per_s * RENEW_S:,.0f}", ""],
        ["bytes of a record of a host with six models", f"{len(RECORD):,}", ""],
    ]


def forwarded_rows(requests: list[Forwarded]) -> Rows:
    return [
        ["", "CPU-µs per request", "lowest and highest round"],
        row("served by the host that received it", [each.local for each in requests], "", 0),
        row("forwarded: the forwarding host", [each.passing for each in requests], "", 0),
        row("forwarded: the serving host", [each.serving for each in requests], "", 0),
        row("both hosts together, relative to one", [each.times_local for each in requests], "×", 2),
    ]


def row(title: str, values: Sequence[float], unit: str, digits: int) -> list[str]:
    times = 1000.0 if unit == "ms" else 1.0
    median, low, high = (
        f"{value * times:.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return [title, f"{median} {unit}".rstrip(), f"{low} – {high} {unit}".rstrip()]
