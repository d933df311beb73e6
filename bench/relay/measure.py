"""Measures one proxy in one cell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, assert_never

from bench.relay.cells import (
    CHUNKS_PER_S,
    LLAMA_S,
    REQUESTS_S,
    SLOW_CHUNKS_PER_S,
    STREAMS_S,
    STREAMS_SETTLE_S,
    Cell,
    Work,
)
from bench.relay.loads import CHAT, ONE_TOKEN, Answered, Requests, Streams, chat, idle_connections
from bench.relay.processes import ALL_CORES, PROXY_CORE, Failure, wait_for
from bench.relay.upstreams import Counts, counts

if TYPE_CHECKING:
    from bench.relay.running_proxies import RunningProxy

COMPLETION = "/completion"
AFTERMATH_S = 0.3
"""Requests of departed clients are served in this time, not during the next cell."""

LATEST_S = 60.0
"""A virtual machine may stall for seconds, which must not end a run of half an hour."""

SETTLE_S = 0.5
"""How long memory may settle after the last connection was made."""


def measure(running: RunningProxy, cell: Cell) -> dict[str, float]:
    """The values of one sample; raises if anything went wrong."""
    before = counts(running.backs.bench)
    try:
        values = measured(running, cell)
        must_be_quiet(running)
        must_reuse(running, cell.clients, before, counts(running.backs.bench))
    except Failure as failure:
        raise Failure(f"{running.name}, {cell.key}: {failure}") from failure
    return values


def measured(running: RunningProxy, cell: Cell) -> dict[str, float]:
    match cell.work:
        case Work.UNARY | Work.UPLOAD:
            return requests(running, cell)
        case Work.LLAMA:
            return llama(running, cell)
        case Work.SSE:
            return streams(running, cell)
        case Work.STREAMS_MEMORY:
            return streams_memory(running, cell)
        case Work.IDLE_MEMORY:
            return idle_memory(running, cell)
        case _:
            assert_never(cell.work)


def requests(running: RunningProxy, cell: Cell) -> dict[str, float]:
    running.pin(PROXY_CORE)
    load, before_s = Requests(CHAT, chat(cell.body), running.folder), running.cpu_s()
    answered = load.send(running.port, cell.clients, REQUESTS_S)
    return values_of(running, answered, running.cpu_s() - before_s)


def llama(running: RunningProxy, cell: Cell) -> dict[str, float]:
    """Nothing is pinned: proxy, model server and client share all cores as in production."""
    running.pin(ALL_CORES)
    load, before_s = Requests(COMPLETION, ONE_TOKEN, running.folder), running.cpu_s()
    answered = load.send(running.llama_port, cell.clients, LLAMA_S, ALL_CORES)
    return values_of(running, answered, running.cpu_s() - before_s)


def streams(running: RunningProxy, cell: Cell, path: str = CHAT) -> dict[str, float]:
    running.pin(PROXY_CORE)
    cpu_s: list[float] = []

    def look() -> None:
        cpu_s.append(running.cpu_s())

    load = Streams(cell.clients, CHUNKS_PER_S, STREAMS_SETTLE_S, STREAMS_S, path)
    answered = load.read(running.port, look, look)
    return {**values_of(running, answered, cpu_s[1] - cpu_s[0]), "starved": answered.starved}


def values_of(running: RunningProxy, answered: Answered, cpu_s: float) -> dict[str, float]:
    values = {"per_s": answered.count / answered.seconds, "p50_us": answered.p50_us, "p99_us": answered.p99_us}
    if running.service:
        values["cpu_us"] = cpu_s / answered.count * 1e6
    return values


def streams_memory(running: RunningProxy, cell: Cell) -> dict[str, float]:
    """Slow streams, to measure the memory of streams and not of bytes in transit."""
    base_mb, weights_mb = running.pss_mb(), []

    def look() -> None:
        weights_mb.append(running.pss_mb())

    Streams(cell.clients, SLOW_CHUNKS_PER_S, SETTLE_S, measure_s=2.0).read(running.port, look, look)
    return {"base_mb": base_mb, "mb_per_1000": (weights_mb[-1] - base_mb) * 1000 / cell.clients}


def idle_memory(running: RunningProxy, cell: Cell) -> dict[str, float]:
    base_mb = running.pss_mb()
    with idle_connections(running.port, cell.clients, chat(cell.body)):
        time.sleep(SETTLE_S)
        idle_mb = running.pss_mb()
    return {"base_mb": base_mb, "mb_per_1000": (idle_mb - base_mb) * 1000 / cell.clients}


# Checks


def must_be_quiet(running: RunningProxy) -> None:
    """Return when no stream is open: a proxy that reads on for departed clients would disturb the next cell."""
    wait_for("streams of departed clients stay open", lambda: is_quiet(running), within=LATEST_S)


def is_quiet(running: RunningProxy) -> bool:
    """And none begins: a proxy that is behind may only now forward requests of departed clients."""
    before = counts(running.backs.bench)
    time.sleep(AFTERMATH_S)
    after = counts(running.backs.bench)
    return after.streams == 0 and after.requests == before.requests


def must_reuse(running: RunningProxy, clients: int, before: Counts, after: Counts) -> None:
    """More new connections than clients mean that the proxy opens one for every request."""
    opened, requests = after.accepted - before.accepted, after.requests - before.requests
    renewed = requests // running.proxy.renews_after if running.proxy else 0
    # A quarter more than clients is fine: Go's transport opens one while another is just being returned.
    if opened > clients * 1.25 + renewed + 2:
        raise Failure(f"{opened} upstream connections for {requests} requests of {clients} clients: not reused")
