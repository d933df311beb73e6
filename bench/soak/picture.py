"""The chart of a run: one panel per figure, each with its own scale from zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.soak.samples import Sample

WIDTH, LEFT, PANEL, GAP = 800, 60, 110, 40
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: currentColor; }
  svg { color: #24292f; }
  .heading { font-weight: 600; font-size: 13px; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  polyline { fill: none; stroke: #d9580d; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) { svg { color: #e6edf3; } polyline { stroke: #ff8a3d; } }
"""
PANELS: tuple[tuple[str, Callable[[Sample], float]], ...] = (
    ("Anonymous memory, MB", lambda it: it.own_mb),
    ("Open files", lambda it: it.open_files),
    ("Tasks", lambda it: it.tasks),
    ("Response time without streaming, p50, ms", lambda it: it.p50_ms),
)


def picture(samples: Sequence[Sample]) -> str:
    height = len(PANELS) * (PANEL + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
        ' aria-labelledby="title">',
        '<title id="title">Memory, open files, tasks and response time over the run</title>',
        f"<style>{STYLE}</style>",
    ]
    for n, (heading, of) in enumerate(PANELS):
        parts += panel(heading, samples, of, top=n * (PANEL + GAP) + GAP)
    minutes = samples[-1].at_s / 60
    parts.append(f'<text x="{WIDTH - 10}" y="{height - 8}" text-anchor="end">{minutes:.0f} min</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(heading: str, samples: Sequence[Sample], of: Callable[[Sample], float], top: int) -> list[str]:
    values = [of(sample) for sample in samples]
    most, end = max(values) * 1.1 or 1.0, samples[-1].at_s
    across = WIDTH - LEFT - 10
    points = " ".join(
        f"{LEFT + sample.at_s / end * across:.1f},{top + PANEL * (1 - value / most):.1f}"
        for sample, value in zip(samples, values, strict=True)
    )
    return [
        f'<text class="heading" x="{LEFT}" y="{top - 8}">{heading}</text>',
        *(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y}" y2="{y}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.0f}</text>'
            for y, value in ((top + PANEL, 0.0), (top, most))
        ),
        f'<polyline points="{points}"/>',
    ]
