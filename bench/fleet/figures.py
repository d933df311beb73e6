"""The figures of a simulated fleet, and their tables."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hotseat.simulation.results import quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet.workload import Workload
    from bench.report import Rows


@dataclass(slots=True)
class Counters:
    """Counted during a run."""

    waits: array[float] = field(default_factory=lambda: array("d"))
    served: int = 0
    refused: int = 0
    """The queue was full, or there was no host."""
    broken: int = 0
    """Their host failed."""
    loads: int = 0
    doubled: int = 0
    """Loads of a model that was already loading on another host, except further replicas."""
    replicas: int = 0
    """Loads because waiting would take longer."""
    came_back_to: int = 0
    """Served by the host that served the same client's last request for the same model."""
    could_come_back: int = 0
    records: int = 0
    record_bytes: int = 0
    claims: int = 0
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    policy: str
    served: int
    refused: int
    broken: int
    loads: int
    loads_per_100: float
    """Of a hundred requests."""
    doubled: int
    replicas: int
    wait_mean_s: float
    wait_p50_s: float
    wait_p99_s: float
    wait_max_s: float
    at_once: float
    """Share of requests that did not wait."""
    imbalance: float
    """The busiest host relative to the mean of hosts of its size."""
    evenness: float
    """Jain's index over the hosts' work per GiB."""
    affinity: float
    """Share of requests that went to the same host as the client's last one, of those that could."""
    writes_per_host_s: float
    record_bytes: float
    claims: int
    conflicts: int


def figures(policy: str, workload: Workload, counters: Counters, work: list[float]) -> Figures:
    """`work` is that of each host, per GiB."""
    waits = sorted(counters.waits)
    writes = counters.records + 2 * counters.claims  # each is withdrawn
    return Figures(
        policy=policy,
        served=counters.served,
        refused=counters.refused,
        broken=counters.broken,
        loads=counters.loads,
        loads_per_100=100 * counters.loads / workload.requests,
        doubled=counters.doubled,
        replicas=counters.replicas,
        wait_mean_s=mean(waits),
        wait_p50_s=quantile(waits, 0.5),
        wait_p99_s=quantile(waits, 0.99),
        wait_max_s=waits[-1] if waits else 0.0,
        at_once=sum(wait <= 0.01 for wait in waits) / max(1, len(waits)),
        imbalance=max(work) / max(1e-9, mean(work)),
        evenness=jain(work),
        affinity=counters.came_back_to / max(1, counters.could_come_back),
        writes_per_host_s=writes / len(workload.machines) / workload.day_s,
        record_bytes=counters.record_bytes / max(1, counters.records),
        claims=counters.claims,
        conflicts=counters.conflicts,
    )


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def jain(values: list[float]) -> float:
    """1 if all are equal, one over their number if one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


Row: TypeAlias = "tuple[str, Callable[[Figures], str]]"

OUTCOME: list[Row] = [
    ("served", lambda run: f"{run.served:,}"),
    ("refused: the queue was full", lambda run: f"{run.refused:,}"),
    ("broken: the host failed", lambda run: f"{run.broken:,}"),
    ("loads", lambda run: f"{run.loads:,}"),
    ("loads per 100 requests", lambda run: f"{run.loads_per_100:.1f}"),
    ("— of a model that was already loading elsewhere", lambda run: f"{run.doubled:,}"),
    ("— for another replica", lambda run: f"{run.replicas:,}"),
    ("served at once", lambda run: f"{100 * run.at_once:.1f} %"),
    ("wait, mean", lambda run: f"{run.wait_mean_s:.1f} s"),
    ("wait, p50", lambda run: f"{run.wait_p50_s:.1f} s"),
    ("wait, p99", lambda run: f"{run.wait_p99_s:.0f} s"),
    ("wait, longest", lambda run: f"{run.wait_max_s:.0f} s"),
    ("busiest host relative to the mean, work per GiB", lambda run: f"{run.imbalance:.1f} ×"),
    ("evenness of work per GiB (Jain)", lambda run: f"{run.evenness:.2f}"),
    ("returned to the same host, of those that could", lambda run: f"{100 * run.affinity:.0f} %"),
]
COST: list[Row] = [
    ("writes per second and host", lambda run: f"{run.writes_per_host_s:.2f}"),
    ("bytes of a record, mean", lambda run: f"{run.record_bytes:.0f}"),
    ("claims", lambda run: f"{run.claims:,}"),
    ("conflicting claims", lambda run: f"{run.conflicts:,}"),
]


def tables(runs: Sequence[Figures]) -> dict[str, Rows]:
    """The second one has no column for policies without messages."""
    return {"Placement": table(OUTCOME, runs), "Messages": table(COST, [run for run in runs if run.record_bytes])}


def table(rows: Sequence[Row], runs: Sequence[Figures]) -> Rows:
    return [["", *(run.policy for run in runs)], *([title, *map(cell, runs)] for title, cell in rows)]
