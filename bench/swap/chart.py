"""A chart of the time of a swap: one bar per case and side, one colour per part. Plain SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bench.swap.cases import AHEAD, ALL, BARE, HOTSEAT, WAITING
from bench.swap.sides import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.swap.results import Record

    from hotseat.identifiers import Seconds

WIDTH, NAMES, NUMBERS = 800, 190, 80
ROW, BAR, HEADING, GAP = 24, 16, 30, 16
LONGEST_BAR = WIDTH - NAMES - NUMBERS

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .heading { font-weight: 600; font-size: 13px; }
  .decide { fill: #7a52b3; } .drain { fill: #b08900; } .stop { fill: #57606a; }
  .start { fill: #2f9e8f; } .load { fill: #9aa4b0; } .first-byte { fill: #d9580d; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .decide { fill: #b794f4; } .drain { fill: #e3b341; } .stop { fill: #8b949e; }
    .start { fill: #56d4c4; } .load { fill: #545d68; } .first-byte { fill: #ff8a3d; }
  }
"""


def chart(record: Record) -> str:
    parts, top = legend(), GAP + ROW
    for case in ALL.values():
        named = [side for side in (BARE, HOTSEAT, WAITING, AHEAD) if record.of(case.name, side)]
        sides = {side: record.parts(case.name, side) for side in named}
        if sides:
            parts += panel(f"Swap to {case.title}, ms", sides, top)
            top += HEADING + ROW * len(sides) + GAP
    frame = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" role="img"'
        ' aria-labelledby="title">'
    )
    title = '<title id="title">The parts of a swap, by hotseat and by the bare engine</title>'
    return "\n".join([frame, title, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def legend() -> list[str]:
    drawn = []
    for n, part in enumerate(PARTS):
        x = NAMES + n * 95
        drawn += [
            f'<rect class="{css(part)}" x="{x}" y="{GAP - 10}" width="10" height="10" rx="2"/>',
            f'<text x="{x + 15}" y="{GAP}">{escape(part)}</text>',
        ]
    return drawn


def panel(title: str, sides: Mapping[str, Mapping[str, Seconds]], top: int) -> list[str]:
    scale = LONGEST_BAR / max(sum(spans.values()) for spans in sides.values())
    drawn = [f'<text class="heading" x="0" y="{top + 14}">{escape(title)}</text>']
    for n, (side, spans) in enumerate(sides.items()):
        drawn += bar(side, spans, scale, top + HEADING + ROW * n)
    return drawn


def bar(side: str, spans: Mapping[str, Seconds], scale: float, y: int) -> list[str]:
    drawn, x = [f'<text x="{NAMES - 10}" y="{y + 13}" text-anchor="end">{escape(side)}</text>'], float(NAMES)
    for part, seconds in spans.items():
        drawn.append(
            f'<rect class="{css(part)}" x="{x:.1f}" y="{y}" width="{seconds * scale:.1f}" height="{BAR}">'
            f"<title>{escape(part)}: {seconds * 1000:,.1f} ms</title></rect>"
        )
        x += seconds * scale
    return [*drawn, f'<text x="{x + 8:.1f}" y="{y + 13}">{sum(spans.values()) * 1000:,.0f}</text>']


def css(part: str) -> str:
    return part.replace(" ", "-")
