"""A chart of slowdown and longest wait of every policy, and of the cost of a decision.

Logarithmic scales, because the policies differ by factors. Plain SVG, readable on light and dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, TypeAlias

from bench.scheduling.runs import PEERS, TURNS
from bench.scheduling.tables import label, name_of
from bench.scheduling.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.scheduling.checks import Record
    from bench.scheduling.costs import Cost

Rows: TypeAlias = dict[str, dict[str, float]]
"""By label, then by policy."""

WIDTH, NAMES, MARGIN = 800, 300, 30
ROW, HEADING, AXIS, GAP, RADIUS = 22, 30, 24, 24, 5
SCALE = WIDTH - NAMES - MARGIN

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: currentColor; }
  svg { color: #24292f; }
  .heading { font-weight: 600; font-size: 13px; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  .span { stroke: currentColor; stroke-opacity: 0.35; }
  .fifo { fill: #b08900; }
  .collate { fill: #3b6fb6; }
  .ollama { fill: #7a52b3; }
  .turns { fill: #d9580d; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; }
    .fifo { fill: #e3b341; }
    .collate { fill: #79a9ec; }
    .ollama { fill: #b794f4; }
    .turns { fill: #ff8a3d; }
  }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    field: str


PANELS = (Panel("Slowdown", "slowdown"), Panel("Longest wait, s", "longest_wait_s"))
RULES = (*PEERS, TURNS)


def chart(record: Record) -> str:
    parts, top = legend(), GAP + ROW
    for title, rows in panels(record):
        drawn, height = drawn_panel(title, rows, top)
        parts += drawn
        top += height
    frame = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" role="img"'
        ' aria-labelledby="title">'
    )
    title = '<title id="title">Slowdown and longest wait of each policy on each workload, and cost of decisions</title>'
    return "\n".join([frame, title, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def panels(record: Record) -> Iterator[tuple[str, Rows]]:
    for panel in PANELS:
        named = [name for name in WORKLOADS if record.mean(name, TURNS)]
        yield panel.title, {label(name): values(record, name, panel.field) for name in named}
    if record.costs:
        yield "CPU time per decision, µs", {size_of(cost): {TURNS: cost.us_per_event} for cost in record.costs}


def size_of(cost: Cost) -> str:
    return f"{cost.models:,} models, {cost.resident} resident, {cost.waiting:,} waiting"


def legend() -> list[str]:
    parts = []
    for n, rule in enumerate(RULES):
        x = NAMES + n * 110
        parts += [
            f'<circle class="{rule}" cx="{x}" cy="{GAP - 4}" r="{RADIUS}"/>',
            f'<text x="{x + 10}" y="{GAP}">{escape(name_of(rule))}</text>',
        ]
    return parts


def drawn_panel(title: str, rows: Rows, top: int) -> tuple[list[str], int]:
    decades = span(value for row in rows.values() for value in row.values())
    bottom = top + HEADING + ROW * len(rows)
    parts = [f'<text class="heading" x="0" y="{top + 14}">{escape(title)}</text>']
    for decade in range(decades[0], decades[1] + 1):
        x = place(10.0**decade, decades)
        parts += [
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top + HEADING - 8}" y2="{bottom}"/>',
            f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{10.0**decade:,g}</text>',
        ]
    for n, (name, row) in enumerate(rows.items()):
        parts += drawn_row(name, row, top + HEADING + ROW * n + ROW // 2, decades)
    return parts, HEADING + ROW * len(rows) + AXIS + GAP


def values(record: Record, workload: str, field: str) -> dict[str, float]:
    found = {rule: record.mean(workload, rule) for rule in RULES}
    return {rule: max(0.1, getattr(each, field)) for rule, each in found.items() if each}


def span(found: Iterable[float]) -> tuple[int, int]:
    """The powers of ten around all of them."""
    numbers = list(found)
    low = floor(log10(min(numbers)))
    return low, max(low + 1, ceil(log10(max(numbers))))


def place(value: float, decades: tuple[int, int]) -> float:
    low, high = decades
    return NAMES + SCALE * (log10(value) - low) / (high - low)


def drawn_row(name: str, row: dict[str, float], y: int, decades: tuple[int, int]) -> list[str]:
    xs = {rule: place(value, decades) for rule, value in row.items()}
    ends = f'x1="{min(xs.values()):.1f}" x2="{max(xs.values()):.1f}" y1="{y}" y2="{y}"'
    dots = [
        f'<circle class="{rule}" cx="{x:.1f}" cy="{y}" r="{RADIUS}">'
        f"<title>{escape(name_of(rule))}: {row[rule]:,.1f}</title></circle>"
        for rule, x in xs.items()
    ]
    return [
        f'<text x="{NAMES - 14}" y="{y + 4}" text-anchor="end">{escape(name)}</text>',
        f'<line class="span" {ends}/>',
        *dots,
    ]
