"""A chart of the two most important figures: CPU per request and per chunk. Plain SVG, readable on light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bench.relay.figures import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.relay.figures import Figure, Figures

WIDTH, NAMES, NUMBERS = 800, 310, 60
ROW, BAR, HEADING, GAP = 26, 16, 34, 20
LONGEST_BAR = WIDTH - NAMES - NUMBERS

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .heading { font-weight: 600; }
  .bar { fill: #9aa4b0; }
  .ours { fill: #d9580d; }
  .spread { stroke: #24292f; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .bar { fill: #6b7682; }
    .ours { fill: #ff8a3d; }
    .spread { stroke: #e6edf3; }
  }
"""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    cell: str
    digits: int


PANELS = (
    Panel("CPU time per 1 KB request, µs (16 connections)", "unary-16", 0),
    Panel("CPU time per streamed chunk, µs (500 streams)", "sse-500", 1),
)


def chart(figures: Figures, titles: Mapping[str, str]) -> str:
    """The whole SVG; panels without figures are left out."""
    parts: list[str] = []
    top = GAP
    for panel in PANELS:
        found = [(name, figures.get(name, panel.cell, "cpu_us")) for name in titles]
        bars = {name: figure for name, figure in found if figure}
        if bars:
            parts.extend(drawn(panel, bars, titles, top))
            top += HEADING + ROW * len(bars) + GAP
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" role="img">'
    return "\n".join([frame, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def drawn(panel: Panel, bars: Mapping[str, Figure], titles: Mapping[str, str], top: int) -> list[str]:
    scale = LONGEST_BAR / max(figure.high for figure in bars.values())
    lines = [f'<text class="heading" x="0" y="{top + 14}">{escape(panel.title)}</text>']
    for place, (name, figure) in enumerate(bars.items()):
        y = top + HEADING + ROW * place
        kind = "bar ours" if name == SUBJECT else "bar"
        middle, low, high = (NAMES + value * scale for value in (figure.median, figure.low, figure.high))
        lines += [
            f'<text x="{NAMES - 10}" y="{y + 13}" text-anchor="end">{escape(titles[name])}</text>',
            f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{middle - NAMES:.1f}" height="{BAR}" rx="2"/>',
            f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}"/>',
            f'<text x="{high + 8:.1f}" y="{y + 13}">{figure.median:.{panel.digits}f}</text>',
        ]
    return lines
