"""The report: on the terminal, and as the page docs/reference/fleet-simulation.md."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet_simulation.costs import Cost
    from bench.fleet_simulation.figures import Figures
    from bench.fleet_simulation.record import Record

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/fleet-simulation.md"

ABOUT_COSTS = (
    "Processor time, the best of seven rounds. Every host has four models and no free memory, and 10,000 models may"
    " run. At most 128 hosts are compared, so choosing takes no longer in a larger fleet."
)

Row = tuple[str, "Callable[[Figures], str]"]

OUTCOME: list[Row] = [
    ("served", lambda run: f"{run.served:,}"),
    ("refused: the queue was full", lambda run: f"{run.refused:,}"),
    ("broken: the host failed", lambda run: f"{run.broken:,}"),
    ("loads", lambda run: f"{run.loads:,}"),
    ("loads per 100 requests", lambda run: f"{100 * run.loads / run.requests:.1f}"),
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
    ("messages received per second and host", lambda run: f"{run.received_per_host_s:.0f}"),
    ("bytes of a record, mean", lambda run: f"{run.record_bytes:.0f}"),
    ("claims per second, whole fleet", lambda run: f"{run.claims_per_s:.1f}"),
    ("conflicting claims", lambda run: f"{run.conflicts:,}"),
    ("processor time of the simulation", lambda run: f"{run.took_s:.0f} s"),
]


BY_SIZE: list[tuple[str, Callable[[Cost], str]]] = [
    ("hosts", lambda cost: f"{cost.hosts:,}"),
    ("processing a record", lambda cost: f"{cost.apply_us:.0f} µs"),
    ("placing a request, 1 replica", lambda cost: f"{cost.serve_us:.1f} µs"),
    ("8 replicas", lambda cost: f"{cost.serve_replicas_us:.0f} µs"),
    ("choosing the host that loads, all hosts full", lambda cost: f"{cost.load_us:.0f} µs"),
    ("memory for the roster", lambda cost: f"{cost.roster_mb:.1f} MB"),
]


def print_report(record: Record) -> None:
    for title, tables in sections(record):
        print(f"\n{title}\n\n{tables}")


def write_page(record: Record) -> None:
    PAGE.write_text(
        Template((HERE / "page.md").read_text()).substitute(
            tables="\n".join(f"## {title}\n\n{tables}\n" for title, tables in sections(record)),
            conditions=f"- {record.date}, seed {record.seed}\n- {record.machine}",
        )
    )


def sections(record: Record) -> list[tuple[str, str]]:
    """One section for each size that was simulated."""
    sizes = dict.fromkeys((run.hosts, run.models, run.requests) for run in record.runs)
    found = []
    for size in sizes:
        runs = [run for run in record.runs if (run.hosts, run.models, run.requests) == size]
        title = f"{size[0]:,} hosts, {size[1]:,} models, {size[2]:,} requests in {runs[0].day_s:,.0f} s"
        knowing = [run for run in runs if run.record_bytes]
        found.append((title, f"{table(OUTCOME, runs)}\n\n{table(COST, knowing)}"))
    if record.costs:
        found.append(("Cost of decisions by number of hosts", f"{ABOUT_COSTS}\n\n{costs_table(record.costs)}"))
    return found


def costs_table(costs: Sequence[Cost]) -> str:
    head = [title for title, _ in BY_SIZE]
    lines = [head, ["---:" for _ in head], *([cell(cost) for _, cell in BY_SIZE] for cost in costs)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def table(rows: Sequence[Row], runs: Sequence[Figures]) -> str:
    lines = [["", *(run.policy for run in runs)], ["---", *("---:" for _ in runs)]]
    lines += [[title, *(cell(run) for run in runs)] for title, cell in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
