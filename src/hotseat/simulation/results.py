"""The figures of a run. Each is a function of the recorded requests and processes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotseat.identifiers import Instant, Seconds
    from hotseat.simulation.run_log import Request, Run


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
    client_mean_s: float
    """Mean latency with equal weight per client."""
    worst_client_s: float
    """Mean latency of the slowest client."""
    fairness: float
    """Jain's index of the clients' shares of service in latency: 1 is even."""
    stalled: float
    """Share of time in which requests waited and none was processed."""


def figures(run: Run) -> Figures:
    served = [request for request in run.requests if request.finished is not None]
    latencies = sorted(map(latency, served))
    makespan = max((request.finished or 0.0 for request in served), default=0.0)
    by_client = per_client(served)
    means = [fmean(map(latency, theirs)) for theirs in by_client]
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
        client_mean_s=fmean(means) if means else 0.0,
        worst_client_s=max(means, default=0.0),
        fairness=jain([fmean(map(served_share, theirs)) for theirs in by_client]),
        stalled=share(stalled_s(run.requests, makespan), makespan),
    )


def latency(request: Request) -> Seconds:
    assert request.finished is not None
    return request.finished - request.arrived


def wait(request: Request) -> Seconds:
    assert request.started is not None
    return request.started - request.arrived


def served_share(request: Request) -> float:
    return request.service / max(1e-9, latency(request))


def per_client(requests: Iterable[Request]) -> list[list[Request]]:
    by_client: dict[str, list[Request]] = {}
    for request in requests:
        by_client.setdefault(request.client, []).append(request)
    return list(by_client.values())


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0


def jain(values: Sequence[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


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
