"""A run as an SVG: a lane per model with its loads, ready times and drains, and a tick per request.

No scripts and no embedded fonts; it follows the reader's light or dark scheme.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotseat.identifiers import Instant, ModelName
    from hotseat.simulation.results import Run, Stay

WIDTH, NAMES, MARGIN = 1000, 150, 20
LANE, BAR, TICK = 40, 14, 8
HEADING, AXIS, LEGEND = 34, 30, 30
STEPS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
MOST_MARKS = 12

STYLE = """
  svg { color: #24292f; }
  text { font: 12px system-ui, sans-serif; fill: currentColor; }
  .heading { font-size: 14px; font-weight: 600; }
  .grid { stroke: currentColor; stroke-opacity: 0.15; }
  .loading { fill: #d9a400; }
  .ready { fill: #2f8f4e; }
  .draining { fill: #c8501e; }
  .stopping { fill: #8a8f98; }
  .asked { stroke: currentColor; stroke-opacity: 0.55; fill: none; }
  .refused { stroke: #d1242f; fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) {
    svg { color: #e6edf3; }
    .loading { fill: #e3b341; }
    .ready { fill: #4fb36f; }
    .draining { fill: #f0834d; }
    .stopping { fill: #6b7682; }
    .refused { stroke: #ff7b72; }
  }
"""


@dataclass(frozen=True, slots=True)
class Scale:
    end: Instant

    def x(self, when: Instant) -> float:
        return NAMES + (WIDTH - NAMES - MARGIN) * min(when, self.end) / self.end


def timeline(runs: Sequence[tuple[str, Run]]) -> str:
    """The runs below each other on one time scale."""
    scale = Scale(max([1.0, *(end_of(run) for _, run in runs)]))
    parts: list[str] = []
    top = LEGEND
    for heading, run in runs:
        lanes = lanes_of(run)
        parts += drawn(heading, run, lanes, top, scale)
        top += HEADING + LANE * len(lanes) + AXIS
    return "\n".join([*frame(runs, top), *legend(), *parts, "</svg>"]) + "\n"


def end_of(run: Run) -> Instant:
    moments = [moment for request in run.requests for moment in (request.arrived, request.finished) if moment]
    moments += [moment for stay in run.stays for moment in (stay.asked, stay.ready, stay.gone) if moment]
    return max(moments, default=0.0)


def lanes_of(run: Run) -> list[ModelName]:
    """Every model that was loaded or requested, in order of appearance."""
    seen = [(stay.asked, stay.model) for stay in run.stays]
    seen += [(request.arrived, request.model) for request in run.requests]
    return list(dict.fromkeys(model for _, model in sorted(seen)))


def frame(runs: Sequence[tuple[str, Run]], height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
        ' aria-labelledby="title desc">'
    )
    yield '<title id="title">Which model ran when</title>'
    description = "; ".join(f"{heading}: {len(run.stays)} loads, {len(run.requests)} requests" for heading, run in runs)
    yield f'<desc id="desc">{escape(description)}.</desc>'
    yield f"<style>{STYLE}</style>"


def legend() -> Iterator[str]:
    for n, phase in enumerate(("loading", "ready", "draining", "stopping")):
        x = NAMES + n * 100
        yield f'<rect class="{phase}" x="{x}" y="8" width="14" height="14" rx="2"/>'
        yield f'<text x="{x + 20}" y="19">{phase}</text>'
    yield f'<path class="asked" d="M{NAMES + 405} 11v8m4 -8v8m4 -8v8"/><text x="{NAMES + 420}" y="19">request</text>'


def drawn(heading: str, run: Run, lanes: Sequence[ModelName], top: int, scale: Scale) -> Iterator[str]:
    bottom = top + HEADING + LANE * len(lanes)
    yield f'<text class="heading" x="0" y="{top + 20}">{escape(heading)}</text>'
    yield from axis(top + HEADING, bottom, scale)
    for n, model in enumerate(lanes):
        y = top + HEADING + LANE * n
        yield f'<text x="{NAMES - 10}" y="{y + TICK + BAR}" text-anchor="end">{escape(model)}</text>'
        for stay in run.stays:
            if stay.model == model:
                yield from bars(stay, y + TICK + 2, scale, end_of(run))
        yield from ticks(run, model, y, scale)


def axis(top: int, bottom: int, scale: Scale) -> Iterator[str]:
    step = next((step for step in STEPS_S if scale.end / step <= MOST_MARKS), STEPS_S[-1])
    for n in range(int(scale.end // step) + 1):
        x = scale.x(n * step)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{clock(n * step)}</text>'


def clock(seconds: int) -> str:
    """`45s`, `2:05` or `1:02:05`."""
    hours, minutes, rest = seconds // 3600, seconds % 3600 // 60, seconds % 60
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest}s"


def bars(stay: Stay, y: int, scale: Scale, end_of_run: Instant) -> Iterator[str]:
    for phase, begin, end in phases(stay, end_of_run):
        left, right = scale.x(begin), scale.x(end)
        yield (
            f'<rect class="{phase}" x="{left:.1f}" y="{y}" width="{max(0.5, right - left):.1f}" height="{BAR}">'
            f"<title>{escape(stay.model)} {phase} from {begin:.1f} s to {end:.1f} s</title></rect>"
        )


def phases(stay: Stay, end: Instant) -> Iterator[tuple[str, Instant, Instant]]:
    """Each phase with start and end; the last one may end with the run."""
    marks = [
        ("loading", stay.asked),
        ("ready", stay.ready),
        ("draining", stay.draining),
        ("stopping", stay.stopping),
        ("gone", end if stay.gone is None else stay.gone),
    ]
    known = [(phase, when) for phase, when in marks if when is not None]
    for (phase, begin), (_, until) in pairwise(known):
        if until > begin:
            yield phase, begin, until


def ticks(run: Run, model: ModelName, y: int, scale: Scale) -> Iterator[str]:
    """One path for all: a busy hour has thousands."""
    served = [r.arrived for r in run.requests if r.model == model and r.finished is not None]
    others = [r.arrived for r in run.requests if r.model == model and r.finished is None]
    for kind, moments in (("asked", served), ("refused", others)):
        if moments:
            yield f'<path class="{kind}" d="{"".join(f"M{scale.x(at):.1f} {y}v{TICK}" for at in moments)}"/>'
