"""The report: on the terminal, and as the page docs/reference/scheduling-figures.md with its chart."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from bench.scheduling.chart import chart
from bench.scheduling.checks import verdicts
from bench.scheduling.comparison import against, summary
from bench.scheduling.mixes import FAMILIES
from bench.scheduling.runs import COLLATE
from bench.scheduling.tables import MIX_HEAD, TABLES, family_rows, markdown, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scheduling.record import Record
    from bench.scheduling.runs import Outcome

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/scheduling-figures.md"
CHART = PAGE.with_suffix(".svg")


def print_report(record: Record) -> None:
    for table in TABLES:
        if rows := table.rows(record):
            print(f"\n{table.title}: {table.about}\n\n{plain(rows)}")
    print()
    for verdict in verdicts(record):
        print(verdict)


def print_mixes(outcomes: Sequence[Outcome]) -> None:
    for family in FAMILIES:
        print(f"\n{plain([MIX_HEAD, *family_rows(outcomes, family, [COLLATE])])}")
        if lost := summary(against(outcomes, family)).worse_in_all:
            print(f"worse in everything: {', '.join(map(str, lost))}")


def write_page(record: Record) -> None:
    PAGE.write_text(page(record))
    CHART.write_text(chart(record))


def page(record: Record) -> str:
    filled = [(table, table.rows(record)) for table in TABLES]
    return Template((HERE / "page.md").read_text()).substitute(
        tables="\n".join(f"## {table.title}\n\n{table.about}\n\n{markdown(rows)}\n" for table, rows in filled if rows),
        promises=markdown(promise_rows(record)),
        conditions=f"- {record.date}, {record.seconds / 60:.0f} min\n- {record.machine}",
    )


def promise_rows(record: Record) -> list[list[str]]:
    head = ["target", "allowed", "measured", ""]
    return [head] + [
        [
            each.promise,
            f"{each.side.value} {each.limit:g}",
            f"{each.measured:.3g}",
            "met" if each.holds else "missed",
        ]
        for each in verdicts(record)
    ]
