"""The report: on the terminal, and as the page docs/reference/conversations-figures.md."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from bench.conversations.cases import CASES
from bench.conversations.checks import verdicts
from bench.conversations.record import OFF, ON, STAYED
from bench.report import markdown, plain
from bench.swap.page import ms, spread

if TYPE_CHECKING:
    from bench.conversations.record import Record
    from bench.report import Rows

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/conversations-figures.md"


def print_report(record: Record) -> None:
    print(f"\n{plain(return_rows(record))}\n")
    print(of_answers(record))
    for verdict in verdicts(record):
        print(verdict)


def page(record: Record) -> str:
    return Template((HERE / "page.md").read_text()).substitute(
        returns=markdown(return_rows(record)),
        answers=of_answers(record),
        promises=markdown(promise_rows(record)),
        conditions=f"- {record.date}, load average {record.load:.1f} at the beginning\n"
        f"- {record.machine}\n- {record.server}",
    )


def return_rows(record: Record) -> Rows:
    """Medians in milliseconds."""
    head = ["model", "`conversations`", "next turn", "p10–p90", "with load", "away", "reused", "rounds"]
    sides = [(case, side) for case in CASES.values() for side in (OFF, ON) if record.of(case.name, side)]
    return [head, *([case.title, side, *figures(record, case.name, side)] for case, side in sides)]


def figures(record: Record, case: str, side: str) -> list[str]:
    found = record.of(case, side)
    times = {field: record.median(case, side, field) for field in ("turn_s", "whole_s", "away_s", "share")}
    return [
        ms(times["turn_s"]),
        spread([each.turn_s for each in found]),
        ms(times["whole_s"]),
        ms(times["away_s"]),
        f"{times['share']:.1%}",
        str(len(found)),
    ]


def of_answers(record: Record) -> str:
    """What was found about conversations whose answers were compared, if there were any."""
    those = [each for each in record.answers if each.side == ON]
    if not those:
        return ""
    cached, computed = sum(each.cached for each in those), sum(each.computed for each in those)
    return Template((HERE / "answers.md").read_text()).substitute(
        count=len(record.texts(ON)),
        share=f"{cached / (cached + computed):.1%}",
        same=record.equal_answers(ON, STAYED),
        recomputed=record.equal_answers(ON, OFF),
        unswapped=record.equal_answers(STAYED, OFF),
    )


def promise_rows(record: Record) -> Rows:
    rows = [[each.promise, each.allowed, each.measured, "met" if each.holds else "missed"] for each in verdicts(record)]
    return [["target", "allowed", "measured", ""], *rows]
