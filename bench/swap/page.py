"""The report: on the terminal, and as the page docs/reference/swaps.md with its chart."""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles
from string import Template
from typing import TYPE_CHECKING

from bench.report import markdown, plain
from bench.swap.cases import AHEAD, ALL, BARE, BEHIND_DRAIN, DRAIN_S, HOTSEAT, WAITING
from bench.swap.chart import chart
from bench.swap.checks import verdicts
from bench.swap.readiness import LONGEST_S, SHORTEST_S
from bench.swap.spans import PARTS

if TYPE_CHECKING:
    from bench.report import Rows
    from bench.swap.record import Record

SIDES = (BARE, HOTSEAT, WAITING, AHEAD)
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/swaps.md"
CHART = PAGE.with_suffix(".svg")


def print_report(record: Record) -> None:
    print(f"\n{plain(part_rows(record))}\n")
    for verdict in verdicts(record):
        print(verdict)


def write_page(record: Record) -> None:
    PAGE.write_text(page(record))
    CHART.write_text(chart(record))


def page(record: Record) -> str:
    return Template((HERE / "page.md").read_text()).substitute(
        parts="\n".join(f"| {part} | {about} |" for part, about in PARTS.items()),
        swaps=markdown(part_rows(record)),
        reading_ahead=of_reading_ahead(record),
        readiness=of_readiness(record),
        promises=markdown(promise_rows(record)),
        conditions=f"- {record.date}, load average {record.load:.1f} at the beginning\n"
        f"- {record.machine}\n- {record.server}",
    )


def of_reading_ahead(record: Record) -> str:
    """The effect of reading ahead, if it was measured."""
    case = BEHIND_DRAIN.name
    if not record.of(case, AHEAD):
        return ""
    return Template((HERE / "reading_ahead.md").read_text()).substitute(
        drain=f"{DRAIN_S:g}",
        waiting=ms(record.after_drain(case, WAITING)),
        ahead=ms(record.after_drain(case, AHEAD)),
        words_waiting=f"{record.words(case, WAITING):,.0f}",
        words_ahead=f"{record.words(case, AHEAD):,.0f}",
    )


def of_readiness(record: Record) -> str:
    """The delay until ready servers were noticed, if it was measured."""
    late = sorted(each.late_s for each in record.noticed)
    if not late:
        return ""
    return Template((HERE / "readiness.md").read_text()).substitute(
        starts=len(late),
        shortest=f"{SHORTEST_S:g}",
        longest=f"{LONGEST_S:g}",
        median=ms(median(late)),
        p95=ms(late[int(0.95 * len(late))]),
        worst=ms(late[-1]),
    )


def part_rows(record: Record) -> Rows:
    """Medians in milliseconds, and the span from the tenth to the ninetieth percentile of the whole."""
    head = ["swap to", "by", *PARTS, "whole", "p10–p90", "pairs"]
    sides = [(case, side) for case in ALL.values() for side in SIDES if record.of(case.name, side)]
    return [head, *([case.title, side, *figures(record, case.name, side)] for case, side in sides)]


def figures(record: Record, case: str, side: str) -> list[str]:
    found = record.of(case, side)
    parts = [ms(record.part(case, side, part)) if part in found[0].spans else "" for part in PARTS]
    return [*parts, ms(record.total(case, side)), spread([swap.total for swap in found]), str(len(found))]


def spread(seconds: list[float]) -> str:
    deciles = quantiles(seconds, n=10, method="inclusive") if len(seconds) > 1 else seconds
    return f"{ms(deciles[0])}–{ms(deciles[-1])}"


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def promise_rows(record: Record) -> Rows:
    rows = [[each.promise, each.allowed, each.measured, "met" if each.holds else "missed"] for each in verdicts(record)]
    return [["target", "allowed", "measured", ""], *rows]
