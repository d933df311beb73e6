"""The tables of the report: rows of text, for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from bench.scheduling.baseline import baseline
from bench.scheduling.comparison import against, noise, summary
from bench.scheduling.mixes import FAMILIES
from bench.scheduling.placements import by_machine
from bench.scheduling.runs import CLAIRVOYANT, COLLATE, PATIENCES, PEERS, TURNS
from bench.scheduling.workloads import WORKLOADS

from hotseat.simulation.results import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.scheduling.comparison import Summary
    from bench.scheduling.record import Record
    from bench.scheduling.runs import Outcome

Rows: TypeAlias = list[list[str]]
SHOWN = (*PEERS, TURNS, CLAIRVOYANT)
NAMES = {TURNS: "hotseat", CLAIRVOYANT: "clairvoyant"}

MIXES_ABOUT = (
    "Gains are geometric means of the other policy's figure over hotseat's: above 1, hotseat is better."
    " Each client counts once, by its slowdown or by the completion of its batch."
    " No worse means within 2 %; worse in everything means in clients, longest wait and makespan,"
    " by more than 2 % and more than the other policy's own runs differ."
    " Each mix is played three times, with times that differ by up to 1 %."
)


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    about: str
    rows: Callable[[Record], Rows]


@dataclass(frozen=True, slots=True)
class Measure:
    title: str
    field: str
    form: str


MEASURES = (
    Measure("Loads", "loads", ".0f"),
    Measure("Requests per hour", "per_hour", ",.0f"),
    Measure("Slowdown", "slowdown", ",.2f"),
    Measure("Slowdown of the worst-off client", "worst_slowdown", ",.2f"),
    Measure("Mean latency, s", "mean_s", ",.1f"),
    Measure("p50 latency, s", "p50_s", ",.1f"),
    Measure("p95 latency, s", "p95_s", ",.0f"),
    Measure("p99 latency, s", "p99_s", ",.0f"),
    Measure("Longest wait, s", "longest_wait_s", ",.0f"),
    Measure("Stalled share", "stalled", ".2f"),
)


def name_of(decider: str) -> str:
    return NAMES.get(decider, decider)


def workload_rows(record: Record, measure: Measure) -> Rows:
    body = [[label(name), *cells_of(record, name, measure)] for name in WORKLOADS if record.mean(name, TURNS)]
    return [["workload", *map(name_of, SHOWN)], *body] if body else []


def label(workload: str) -> str:
    return f"{workload}: {WORKLOADS[workload].title}"


def cells_of(record: Record, workload: str, measure: Measure) -> Iterator[str]:
    for decider in SHOWN:
        found = record.mean(workload, decider)
        yield "–" if found is None else f"{getattr(found, measure.field):{measure.form}}"


def patience_rows(record: Record) -> Rows:
    body = [
        [label(name), *(patience_cell(record, name, decider) for decider in by_patience())]
        for name in WORKLOADS
        if record.mean(name, "turns0")
    ]
    head = ["workload", *(f"patience {PATIENCES[decider]:g}" for decider in by_patience())]
    return [head, *body] if body else []


def by_patience() -> list[str]:
    return sorted(PATIENCES, key=PATIENCES.__getitem__)


def patience_cell(record: Record, workload: str, decider: str) -> str:
    found = record.mean(workload, decider)
    return "–" if found is None else f"{found.loads:.0f} / {found.slowdown:,.2f} / {found.longest_wait_s:,.0f}"


def bound_rows(record: Record) -> Rows:
    shares = {name: [each.share_of_bound for each in record.of(name, TURNS)] for name in (*WORKLOADS, "crowd")}
    body = [
        [
            label(name) if name in WORKLOADS else f"{len(found)} random scenarios",
            models_that_fit(name),
            f"{max(found):.2f}",
        ]
        for name, found in shares.items()
        if found
    ]
    return [["scenario", "models that fit", "longest claim-to-ready / bound"], *body] if body else []


def models_that_fit(name: str) -> str:
    return "one" if name == "crowd" or WORKLOADS[name].fits_one else "several"


def mix_rows(record: Record) -> Rows:
    body = [row for family in FAMILIES for row in family_rows(record.outcomes, family, PEERS)]
    return [MIX_HEAD, *body] if body else []


MIX_HEAD = [
    "",
    "no worse",
    "gain of clients",
    "longest wait",
    "makespan",
    "loads",
    "worse in everything",
    "worst / best mix",
    "longest wait / bound",
]


def family_rows(outcomes: Sequence[Outcome], family: str, rivals: Sequence[str]) -> Iterator[list[str]]:
    """hotseat against each other policy, the baseline against collate, and collate against itself."""
    for rival in rivals:
        if found := against(outcomes, family, rival):
            name = f"{len(found)} {FAMILIES[family].title}: hotseat against {rival}"
            yield summary_row(name, summary(found))
            before = baseline(family, [mix.seed for mix in found])
            if before and rival == COLLATE:
                yield summary_row("baseline against collate", before)
    if itself := noise(outcomes, family):
        yield summary_row("noise: collate against itself", summary(itself))


def summary_row(name: str, found: Summary) -> list[str]:
    gains = (found.gain, found.longest_wait, found.makespan, found.loads)
    return [
        name,
        f"{found.no_worse:.1%}",
        *(f"{gain:.3f}" for gain in gains),
        f"{len(found.worse_in_all) / found.mixes:.1%}",
        f"{found.worst:.2f} / {found.best:.1f}",
        f"{found.share_of_bound:.2f}" if found.share_of_bound else "–",
    ]


def optimum_rows(record: Record) -> Rows:
    body = [
        [name_of(each.decider), f"{each.mean:.2f}", f"{each.p95:.2f}", f"{each.worst:.2f}"] for each in record.ratios
    ]
    return [["", "mean", "p95", "worst"], *body] if body else []


PLACEMENTS_ABOUT = (
    "`gpus: auto` beside fixed assignments of models to cards of 24 GiB, each the same at every start."
    " Figures are geometric means over the clients, of slowdowns and of the seconds until a batch is complete."
    " The best assignment is the one that does best on the very same requests, out of those tried:"
    " one balanced by size, random ones, and the best one with models moved."
)


def placement_rows(record: Record) -> Rows:
    head = ["", "gpus: auto", "best assignment", "median assignment", "auto / best", "worst trace", "traces"]
    body = [
        [
            f"{models} models on {cards} cards",
            *(f"{geometric_mean(getattr(each, field) for each in found):.2f}" for field in ("auto", "best", "usual")),
            f"{geometric_mean(each.ratio for each in found):.2f}",
            f"{max(each.ratio for each in found):.2f}",
            str(len(found)),
        ]
        for (cards, models), found in by_machine(record.placements).items()
    ]
    return [head, *body] if body else []


def cost_rows(record: Record) -> Rows:
    body = [
        [each.what, f"{each.models:,}", f"{each.resident:,}", f"{each.waiting:,}", f"{each.us_per_event:,.1f}"]
        for each in record.costs
    ]
    return [["", "models", "resident", "waiting", "µs per decision"], *body] if body else []


def real_rows(record: Record) -> Rows:
    body = [
        [
            label(each.workload),
            f"{each.loads} / {each.loads_simulated}",
            f"{each.mean_s:.2f} / {each.mean_simulated_s:.2f}",
        ]
        for each in record.real
    ]
    return (
        [["workload, shortened", "loads, real / simulated", "mean latency s, real / simulated"], *body] if body else []
    )


TABLES = (
    *(Table(each.title, "Mean over the seeds.", partial(workload_rows, measure=each)) for each in MEASURES),
    Table("Patience", "Loads / slowdown / longest wait in s.", patience_rows),
    Table("Waiting and its bound", "Proved where one model fits at a time; otherwise only reported.", bound_rows),
    Table(
        "Random mixes",
        MIXES_ABOUT,
        mix_rows,
    ),
    Table(
        "The exact optimum",
        "Total latency relative to the optimal schedule, on small random instances where one model fits at a time.",
        optimum_rows,
    ),
    Table("Placement on cards", PLACEMENTS_ABOUT, placement_rows),
    Table("Cost of a decision", "CPU time, mean over the events of a scenario, best of three runs.", cost_rows),
    Table(
        "Real processes",
        "The same traces with the real proxy and real child processes, twenty times as fast.",
        real_rows,
    ),
)


def markdown(rows: Rows) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def plain(rows: Rows) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)
