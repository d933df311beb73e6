"""The report: on the terminal, and as the page docs/reference/fleet-simulation.md."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet_simulation.figures import Figures
    from bench.fleet_simulation.workload import Workload

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/fleet-simulation.md"

Row = tuple[str, "Callable[[Figures], str]"]

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


def write_page(work: Workload, runs: Sequence[Figures]) -> None:
    PAGE.write_text(
        Template((HERE / "page.md").read_text()).substitute(
            hosts=f"{len(work.machines):,}",
            models=f"{len(work.models):,}",
            requests=f"{work.requests:,}",
            seconds=f"{work.day_s:,.0f}",
            seed=work.seed,
            tables=tables(runs),
        )
    )


def tables(runs: Sequence[Figures]) -> str:
    """The second one has no column for policies without messages."""
    return f"{table(OUTCOME, runs)}\n\n{table(COST, [run for run in runs if run.record_bytes])}"


def table(rows: Sequence[Row], runs: Sequence[Figures]) -> str:
    lines = [["", *(run.policy for run in runs)], ["---", *("---:" for _ in runs)]]
    lines += [[title, *(cell(run) for run in runs)] for title, cell in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
