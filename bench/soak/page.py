"""The report: on the terminal, and as the page docs/reference/soak.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.llama import REPOSITORY

if TYPE_CHECKING:
    from bench.soak.samples import Sample, Trend

PAGE = REPOSITORY / "docs/reference/soak.md"
CHART = PAGE.with_suffix(".svg")
TEMPLATE = Path(__file__).with_name("page.md")
SHOWN = 20
"""Of the failures."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    samples: list[Sample]
    ends: dict[str, int]
    wrong: list[str]
    trends: list[Trend]
    loads: int
    cpu_s: float

    @property
    def holds(self) -> bool:
        return not self.wrong and all(trend.holds for trend in self.trends)


def page(outcome: Outcome) -> str:
    requests = sum(outcome.ends.values())
    return TEMPLATE.read_text().format(
        trends="\n".join(map(row, outcome.trends)),
        minutes=outcome.samples[-1].at_s / 60,
        requests=requests,
        loads=outcome.loads,
        cpu_ms=outcome.cpu_s / max(1, requests) * 1000,
        seed=outcome.seed,
        ends="\n".join(f"| {end} | {count:,} |" for end, count in outcome.ends.items()),
        wrong=faults(outcome.wrong),
    )


def row(trend: Trend) -> str:
    verdict = "within limit" if trend.holds else "**grew**"
    return f"| {trend.name} | {trend.early:.1f} | {trend.late:.1f} | {trend.most:.1f} | {verdict} |"


def faults(wrong: list[str]) -> str:
    if not wrong:
        return "Every request ended as expected."
    return "\n".join([f"{len(wrong)} requests ended unexpectedly:", "", *(f"- `{each}`" for each in wrong[:SHOWN])])
