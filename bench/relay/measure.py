"""One run: every proxy runs every cell, in a new order each round, while all others are paused.

A cell is one load that every proxy gets in every round.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, assert_never

from bench.relay.figures import BARE, Sample
from bench.relay.loads import CHAT, ONE_TOKEN, Answered, Requests, Streams, chat, idle_connections
from bench.relay.processes import ALL_CORES, PROXY_CORE, Failure, wait_for
from bench.relay.running_proxies import Programs, RunningProxy, started
from bench.relay.tools import Counts, counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.relay.proxies import Proxy
    from bench.relay.running_proxies import RunningProxy

KB, MB = 1024, 1024 * 1024


class Work(Enum):
    UNARY = "unary"
    UPLOAD = "upload"
    SSE = "sse"
    STREAMS_MEMORY = "streams-memory"
    IDLE_MEMORY = "idle-memory"
    LLAMA = "llama"


TOPICS = {
    "unary": (Work.UNARY, Work.UPLOAD),
    "sse": (Work.SSE,),
    "memory": (Work.STREAMS_MEMORY, Work.IDLE_MEMORY),
    "llama": (Work.LLAMA,),
}
"""The choices of --only."""


def size_of(count: int) -> str:
    return f"{count // MB}MB" if count >= MB else f"{count // KB}KB"


@dataclass(frozen=True, slots=True)
class Cell:
    work: Work
    clients: int
    body: int = 1024
    """Bytes of the request."""
    in_quick: bool = True

    @property
    def weighs_memory(self) -> bool:
        return self.work in TOPICS["memory"]

    @property
    def key(self) -> str:
        """Its name in files and checks: `unary-16`, `upload-10MB-2`."""
        size = f"{size_of(self.body)}-" if self.work is Work.UPLOAD else ""
        return f"{self.work.value}-{size}{self.clients}"


REQUESTS_S, LLAMA_S, STREAMS_S = 1, 2, 1.0
"""How long each proxy runs a cell: the shorter, the closer in time are the compared figures."""
STREAMS_SETTLE_S = 0.5

CHUNKS_PER_S, SLOW_CHUNKS_PER_S = 50, 1
CELLS = (
    Cell(Work.UNARY, 1),
    Cell(Work.UNARY, 16),
    Cell(Work.UNARY, 128, in_quick=False),
    Cell(Work.UPLOAD, 16, 100 * KB),
    Cell(Work.UPLOAD, 2, 10 * MB, in_quick=False),
    Cell(Work.SSE, 100),
    Cell(Work.SSE, 500),
    Cell(Work.SSE, 2000, in_quick=False),
    Cell(Work.STREAMS_MEMORY, 1000),
    Cell(Work.IDLE_MEMORY, 1000),
    Cell(Work.LLAMA, 1),
    Cell(Work.LLAMA, 8),
)


def chosen(topics: Iterable[str], *, is_quick: bool) -> list[Cell]:
    works = [work for topic in topics for work in TOPICS[topic]]
    return [cell for cell in CELLS if cell.work in works and (cell.in_quick or not is_quick)]


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


T = TypeVar("T")

MEMORY_ROUNDS = 3
"""Memory varies little from round to round."""


def run_rounds(proxies: Sequence[Proxy], cells: Sequence[Cell], rounds: int) -> Iterator[Sample]:
    """Each sample when it was taken; raises at the first error."""
    rates = [cell for cell in cells if not cell.weighs_memory]
    if rates:
        with started(proxies, needs_llama=any(cell.work is Work.LLAMA for cell in rates)) as programs:
            for number in range(rounds):
                yield from rate_round(programs, rates, number)
    for number in range(min(rounds, MEMORY_ROUNDS)):
        yield from memory_round(proxies, [cell for cell in cells if cell.weighs_memory], number)


def rate_round(programs: Programs, cells: Sequence[Cell], number: int) -> Iterator[Sample]:
    """Cell by cell, so that compared figures are close in time."""
    for cell in cells:
        for running in shuffled(programs.proxies):
            with running.turn():
                yield sample(running, cell, number)
            programs.must_live()


def memory_round(proxies: Sequence[Proxy], cells: Sequence[Cell], number: int) -> Iterator[Sample]:
    """Each figure from a new process: what an earlier load left in the heap would hide the growth."""
    for cell in cells:
        for proxy in shuffled(proxies):
            with started([proxy], needs_llama=False) as programs:
                running = next(running for running in programs.proxies if running.name != BARE)
                with running.turn():
                    yield sample(running, cell, number)


def sample(running: RunningProxy, cell: Cell, number: int) -> Sample:
    return Sample(running.name, cell.key, number, measure(running, cell))


def tell(sample: Sample) -> None:
    """Print it for whoever watches."""
    shown = "  ".join(f"{name} {value:.1f}" for name, value in sample.values.items())
    print(f"  round {sample.round + 1}  {sample.cell:<18}{sample.proxy:<17} {shown}", file=sys.stderr)


def shuffled(entries: Sequence[T]) -> list[T]:
    return random.sample(entries, len(entries))
