"""The report: on the terminal, and as the page docs/reference/performance.md with its chart."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from bench.relay.chart import chart
from bench.relay.checks import Verdict, spread, verdicts
from bench.relay.figures import Figures
from bench.relay.record import TITLES, Record
from bench.relay.tables import TABLES, markdown, plain
from bench.relay.tools import HERE, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = REPOSITORY / "docs/reference/performance.md"
CHART = PAGE.with_name("performance-relay.svg")

TEMPLATE = Template((HERE / "page.md").read_text())


def print_report(record: Record) -> None:
    figures = Figures(record.samples)
    for table in TABLES:
        if rows := table.rows(figures, TITLES):
            print(f"\n{table.title}: {table.about}\n\n{plain(rows)}")
    print()
    for verdict in verdicts(figures, record.cells()):
        print(verdict)


def write_page(record: Record) -> None:
    figures = Figures(record.samples)
    PAGE.write_text(page(record, figures))
    CHART.write_text(chart(figures, TITLES))


def page(record: Record, figures: Figures) -> str:
    filled = [(table, table.rows(figures, TITLES)) for table in TABLES]
    return TEMPLATE.substitute(
        tables="\n".join(f"## {table.title}\n\n{table.about}\n\n{markdown(rows)}\n" for table, rows in filled if rows),
        promises=markdown(promise_rows(verdicts(figures, record.cells()))),
        conditions=conditions(record),
    )


def promise_rows(found: Sequence[Verdict]) -> list[list[str]]:
    head = ["figure of hotseat", "target", "measured", ""]
    return [head, *(promise_row(verdict) for verdict in found)]


def promise_row(verdict: Verdict) -> list[str]:
    bound = verdict.bound
    promise = f"{bound.side.value} {bound.limit:g}{' × ' + TITLES[bound.of] if bound.of else ''}"
    measured = "–" if verdict.measured is None else spread(verdict.measured)
    return [bound.what, promise, measured, verdict.outcome.value]


def conditions(record: Record) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in record.versions.items())
    rounds = f"{record.rounds} round{'s' if record.rounds > 1 else ''}, {record.seconds / 60:.0f} min"
    stolen = "" if record.stolen is None else f"; {100 * record.stolen:.0f} % of its time went to other machines"
    used = "" if record.used_by_others is None else f", {100 * record.used_by_others:.0f} % to other programs"
    return f"- {record.date}, {rounds}\n- {record.machine}{stolen}{used}\n- {versions}"
