"""What a simulation records, every request and every process with their times, and the figures that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds, TicketId
    from hotseat.simulation.trace import Prompt

SHORTEST_SERVICE_S: Seconds = 0.1
"""A shorter request counts as this long in its slowdown: nobody notices a wait of milliseconds."""


@dataclass(slots=True)
class Request:
    """A time is None if it never came."""

    ticket: TicketId
    client: str
    model: ModelName
    service: float
    arrived: Instant
    started: Instant | None = None
    finished: Instant | None = None
    """End of the response; None if it was refused, cut or left waiting."""
    prompt: Prompt | None = None
    recomputed_s: Seconds | None = None
    """In addition to `service`, for tokens that an earlier process had computed; None: unknown."""


@dataclass(slots=True)
class Stay:
    """One process of a model."""

    model: ModelName
    launch: LaunchId
    asked: Instant
    """When the scheduler asked for it; it may wait for the disk."""
    ready: Instant | None = None
    """With the conversations that were restored."""
    draining: Instant | None = None
    stopping: Instant | None = None
    """Or saving its conversations first."""
    gone: Instant | None = None


@dataclass(frozen=True, slots=True)
class Run:
    requests: tuple[Request, ...]
    stays: tuple[Stay, ...]
    batches: frozenset[str] = frozenset()
    """Clients whose last response counts, not each of them."""


@dataclass(frozen=True, slots=True)
class Figures:
    served: int
    unserved: int
    """Refused, or still waiting at the end of the run."""
    loads: int
    makespan_s: float
    """From time 0 to the end of the last response."""
    per_hour: float
    mean_s: float
    """Latency: from arrival to the end of the response."""
    p50_s: float
    p95_s: float
    p99_s: float
    longest_wait_s: float
    """From arrival until a server started to process it."""
    slowdown: float
    """Geometric mean over the clients that are not batches: 1 if no request waited."""
    worst_slowdown: float
    """Of the client with the largest slowdown."""
    stalled: float
    """Share of time in which requests waited and none was processed."""


def figures(run: Run) -> Figures:
    served = [request for request in run.requests if request.finished is not None]
    latencies = sorted(map(latency, served))
    makespan = max((request.finished or 0.0 for request in served), default=0.0)
    slowdowns = client_slowdowns(run)
    return Figures(
        served=len(served),
        unserved=len(run.requests) - len(served),
        loads=len(run.stays),
        makespan_s=makespan,
        per_hour=share(len(served) * 3600.0, makespan),
        mean_s=fmean(latencies) if latencies else 0.0,
        p50_s=quantile(latencies, 0.50),
        p95_s=quantile(latencies, 0.95),
        p99_s=quantile(latencies, 0.99),
        longest_wait_s=max(map(wait, served), default=0.0),
        slowdown=geometric_mean(slowdowns.values()),
        worst_slowdown=max(slowdowns.values(), default=1.0),
        stalled=share(stalled_s(run.requests, makespan), makespan),
    )


@dataclass(frozen=True, slots=True)
class MachineFigures:
    """Latency, wait and slowdown are those of the clients that are not batches; None: none of them was served."""

    unserved: int
    """Refused, or still waiting at the end of the run."""
    loads: int
    slowdown: float | None
    """Geometric mean over the clients: 1 if no request waited."""
    p95_s: Seconds | None
    longest_wait_s: Seconds | None
    batches_s: Seconds | None
    """From the start of a batch to its last response, for the one that takes longest; None: no batch was served."""
    stalled: float | None
    """None: no request was served."""


def machine_figures(run: Run) -> MachineFigures:
    known = figures(run)
    theirs = [each for each in run.requests if each.client not in run.batches and each.finished is not None]
    return MachineFigures(
        unserved=known.unserved,
        loads=known.loads,
        slowdown=known.slowdown if theirs else None,
        p95_s=quantile(sorted(map(latency, theirs)), 0.95) if theirs else None,
        longest_wait_s=max(map(wait, theirs), default=None),
        batches_s=max(batch_completions(run).values(), default=None),
        stalled=known.stalled if known.served else None,
    )


def recomputed_s(run: Run) -> Seconds | None:
    """What all requests together took longer because their conversations were lost; None: unknown."""
    known = [request.recomputed_s for request in run.requests if request.recomputed_s is not None]
    return sum(known) if known else None


def latency(request: Request) -> Seconds:
    assert request.finished is not None
    return request.finished - request.arrived


def wait(request: Request) -> Seconds:
    assert request.started is not None
    return request.started - request.arrived


def slowdown(request: Request) -> float:
    """Latency over service time."""
    return max(1.0, latency(request) / max(request.service, SHORTEST_SERVICE_S))


def client_slowdowns(run: Run) -> dict[str, float]:
    """The geometric mean of the slowdowns of its requests, for each client that is not a batch."""
    found = served_by_client(run)
    return {name: geometric_mean(map(slowdown, found[name])) for name in found if name not in run.batches}


def batch_completions(run: Run) -> dict[str, Seconds]:
    """From the start of each batch to the end of its last job."""
    found = served_by_client(run)
    return {
        name: max(job.finished or 0.0 for job in found[name]) - min(job.arrived for job in found[name])
        for name in found
        if name in run.batches
    }


def served_by_client(run: Run) -> dict[str, list[Request]]:
    by_client: dict[str, list[Request]] = {}
    for request in run.requests:
        if request.finished is not None:
            by_client.setdefault(request.client, []).append(request)
    return by_client


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = list(map(log, values))
    return exp(fmean(logarithms)) if logarithms else 1.0


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0


def stalled_s(requests: Sequence[Request], end: Instant) -> Seconds:
    """How long requests waited while none was processed."""
    changes: list[tuple[Instant, int, int]] = []
    for request in requests:
        changes.append((request.arrived, 1, 0))
        if request.started is not None:
            changes.append((request.started, -1, 1))
        if request.finished is not None:
            changes.append((request.finished, 0, -1))
    waiting = running = 0
    since, total = 0.0, 0.0
    for when, more_waiting, more_running in sorted(changes):
        if waiting and not running and when <= end:
            total += when - since
        since, waiting, running = when, waiting + more_waiting, running + more_running
    return total
