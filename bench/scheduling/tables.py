"""The tables of the report: rows of text, for the terminal and for docs/reference/scheduling-figures.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.report import Rows, plain, promise_rows
from bench.scheduling.checks import verdicts
from bench.scheduling.comparison import against, noise, summary
from bench.scheduling.expected import baseline
from bench.scheduling.mixes import FAMILIES
from bench.scheduling.placements import by_machine
from bench.scheduling.runs import CLAIRVOYANT, COLLATE, PEERS, TURNS
from bench.scheduling.workloads import WORKLOADS

from hotseat.simulation.results import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scheduling.checks import Record
    from bench.scheduling.comparison import Summary
    from bench.scheduling.runs import Outcome

SHOWN = (*PEERS, TURNS, CLAIRVOYANT)


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
    return "hotseat" if decider == TURNS else decider


def workload_rows(record: Record, measure: Measure) -> Rows:
    body = [[label(name), *cells_of(record, name, measure)] for name in WORKLOADS if record.mean(name, TURNS)]
    return [["workload", *map(name_of, SHOWN)], *body] if body else []


def label(workload: str) -> str:
    return f"{workload}: {WORKLOADS[workload].title}"


def cells_of(record: Record, workload: str, measure: Measure) -> Iterator[str]:
    for decider in SHOWN:
        found = record.mean(workload, decider)
        yield "–" if found is None else f"{getattr(found, measure.field):{measure.form}}"


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


def tables(record: Record) -> dict[str, Rows]:
    """By their headings on the page."""
    return {
        **{measure.title: workload_rows(record, measure) for measure in MEASURES},
        "Waiting and its bound": bound_rows(record),
        "Random mixes": mix_rows(record),
        "The exact optimum": optimum_rows(record),
        "Placement on cards": placement_rows(record),
        "Cost of a decision": cost_rows(record),
        "Real processes": real_rows(record),
        "Targets": promise_rows(verdicts(record)),
    }


def print_mixes(outcomes: Sequence[Outcome]) -> None:
    for family in FAMILIES:
        print(f"\n{plain([MIX_HEAD, *family_rows(outcomes, family, [COLLATE])])}")
        if lost := summary(against(outcomes, family)).worse_in_all:
            print(f"worse in everything: {', '.join(map(str, lost))}")
