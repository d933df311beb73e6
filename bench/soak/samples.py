"""Samples hotseat's resources and latency, checks whether any of them grew, and shows that in tables and a chart."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from tests.support.processes import proc_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.report import Rows
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


@dataclass(frozen=True, slots=True)
class Outcome:
    samples: list[Sample]
    ends: dict[str, int]
    wrong: list[str]
    trends: list[Trend]
    loads: int
    cpu_s: float

    @property
    def holds(self) -> bool:
        return not self.wrong and all(trend.holds for trend in self.trends)


def tables(outcome: Outcome) -> dict[str, Rows]:
    requests = sum(outcome.ends.values())
    return {
        "Soak test": [
            ["", "second quarter", "last quarter", "allowed", ""],
            *(
                [each.name, f"{each.early:.1f}", f"{each.late:.1f}", f"{each.most:.1f}", verdict(each)]
                for each in outcome.trends
            ),
        ],
        "Requests": [
            ["", ""],
            *([end, f"{count:,}"] for end, count in outcome.ends.items()),
            ["ended unexpectedly", f"{len(outcome.wrong):,}"],
            ["minutes", f"{outcome.samples[-1].at_s / 60:.0f}"],
            ["loads", f"{outcome.loads:,}"],
            ["hotseat's CPU time for each request, ms", f"{outcome.cpu_s / max(1, requests) * 1000:.2f}"],
        ],
    }


def verdict(trend: Trend) -> str:
    return "within limit" if trend.holds else "**grew**"


WIDTH, LEFT, PANEL, GAP = 800, 60, 110, 40
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: currentColor; }
  svg { color: #24292f; }
  .heading { font-weight: 600; font-size: 13px; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  polyline { fill: none; stroke: #d9580d; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) { svg { color: #e6edf3; } polyline { stroke: #ff8a3d; } }
"""
PANELS: tuple[tuple[str, Callable[[Sample], float]], ...] = (
    ("Anonymous memory, MB", lambda it: it.own_mb),
    ("Open files", lambda it: it.open_files),
    ("Tasks", lambda it: it.tasks),
    ("Response time without streaming, p50, ms", lambda it: it.p50_ms),
)


def picture(samples: Sequence[Sample]) -> str:
    height = len(PANELS) * (PANEL + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
        ' aria-labelledby="title">',
        '<title id="title">Memory, open files, tasks and response time over the run</title>',
        f"<style>{STYLE}</style>",
    ]
    for n, (heading, of) in enumerate(PANELS):
        parts += panel(heading, samples, of, top=n * (PANEL + GAP) + GAP)
    minutes = samples[-1].at_s / 60
    parts.append(f'<text x="{WIDTH - 10}" y="{height - 8}" text-anchor="end">{minutes:.0f} min</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(heading: str, samples: Sequence[Sample], of: Callable[[Sample], float], top: int) -> list[str]:
    values = [of(sample) for sample in samples]
    most, end = max(values) * 1.1 or 1.0, samples[-1].at_s
    across = WIDTH - LEFT - 10
    points = " ".join(
        f"{LEFT + sample.at_s / end * across:.1f},{top + PANEL * (1 - value / most):.1f}"
        for sample, value in zip(samples, values, strict=True)
    )
    return [
        f'<text class="heading" x="{LEFT}" y="{top - 8}">{heading}</text>',
        *(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y}" y2="{y}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.0f}</text>'
            for y, value in ((top + PANEL, 0.0), (top, most))
        ),
        f'<polyline points="{points}"/>',
    ]
