"""Samples hotseat's resources and latency every few seconds, and checks whether any of them grew."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from tests.support.processes import proc_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.soak.load import Account
    from tests.support.hotseat import Hotseat

MOST_MORE_MB = 3.0
MOST_MORE_OPEN = 5
"""Connections that are open at the moment of a sample."""
MOST_SLOWER = 1.25
"""The speed of a shared machine varies."""


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    own_mb: float
    open_files: int
    threads: int
    tasks: int
    p50_ms: float
    p95_ms: float
    requests: int


def look(rig: Hotseat, at_s: float, account: Account) -> Sample:
    pid = rig.process.pid
    answered = sorted(account.answered_s) or [0.0]
    return Sample(
        at_s=at_s,
        own_mb=own_kb(pid) / 1024,
        open_files=len(os.listdir(f"/proc/{pid}/fd")),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        tasks=gauge(rig.call("GET", "/metrics").body.decode(), "hotseat_tasks"),
        p50_ms=statistics.median(answered) * 1000,
        p95_ms=answered[ceil(0.95 * len(answered)) - 1] * 1000,
        requests=sum(account.ends.values()),
    )


def own_kb(pid: int) -> int:
    """Anonymous memory: a process's share of file pages changes as other programs that map them come and go."""
    lines = proc_file(pid, "smaps_rollup").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"Anonymous:")), 0)


def gauge(page: str, name: str) -> int:
    return next(int(float(line.split()[1])) for line in page.splitlines() if line.startswith(f"{name} "))


def cpu_s(pid: int) -> float:
    """Of the process itself, since its start."""
    fields = proc_file(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Trend:
    """One figure in the second quarter of the run, after all warm-up, and in the last."""

    name: str
    early: float
    late: float
    most: float

    @property
    def holds(self) -> bool:
        return self.late <= self.most


def trends(samples: Sequence[Sample]) -> list[Trend]:
    def median(of: Callable[[Sample], float], quarter: int) -> float:
        size = max(1, len(samples) // 4)
        return statistics.median(of(sample) for sample in samples[quarter * size : (quarter + 1) * size])

    def trend(name: str, of: Callable[[Sample], float], most: Callable[[float], float]) -> Trend:
        early = median(of, 1)
        return Trend(name, early, median(of, 3), most(early))

    return [
        trend("anonymous memory, MB", lambda it: it.own_mb, lambda mb: mb + MOST_MORE_MB),
        trend("open files", lambda it: it.open_files, lambda n: n + MOST_MORE_OPEN),
        trend("threads", lambda it: it.threads, lambda n: n + MOST_MORE_OPEN),
        trend("tasks", lambda it: it.tasks, lambda n: n + MOST_MORE_OPEN),
        trend("response time without streaming, p50, ms", lambda it: it.p50_ms, lambda ms: ms * MOST_SLOWER),
        trend("response time without streaming, p95, ms", lambda it: it.p95_ms, lambda ms: ms * MOST_SLOWER),
    ]
