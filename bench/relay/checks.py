"""The performance promises: limits on figures of one run, most of them relative to another proxy of that run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.relay.figures import Figure, Figures

SUBJECT = "hotseat"


class Side(Enum):
    AT_MOST = "≤"
    AT_LEAST = "≥"


class Outcome(Enum):
    HOLDS = "met"
    FALLS_SHORT = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Bound:
    what: str
    cell: str
    measure: str
    side: Side
    limit: float
    of: str = ""
    """The proxy whose figure `limit` is a multiple of; empty for an absolute limit."""

    @property
    def key(self) -> str:
        return f"{self.cell} {self.measure} {self.side.value} {self.limit:g}{' × ' + self.of if self.of else ''}"


@dataclass(frozen=True, slots=True)
class Verdict:
    bound: Bound
    outcome: Outcome
    measured: Figure | None = None
    """As a multiple of the other proxy's, if there is one."""

    def __str__(self) -> str:
        numbers = "" if self.measured is None else f" (measured {spread(self.measured)})"
        return f"{self.bound.key}: {self.outcome.value}{numbers}"


def spread(figure: Figure) -> str:
    return f"{written(figure.median)} [{written(figure.low)}–{written(figure.high)}]"


def written(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


BOUNDS = (
    Bound("CPU per 1 KB request, 16 connections", "unary-16", "cpu_us", Side.AT_MOST, 0.6, "go"),
    Bound("CPU per 1 KB request, 16 connections", "unary-16", "cpu_us", Side.AT_MOST, 2.2, "nginx"),
    Bound("CPU per chunk, 500 streams", "sse-500", "cpu_us", Side.AT_MOST, 0.85, "go"),
    Bound("CPU per chunk, 500 streams", "sse-500", "cpu_us", Side.AT_MOST, 1.2, "nginx"),
    Bound("memory per 1,000 streams, MB", "streams-memory-1000", "mb_per_1000", Side.AT_MOST, 8.0),
    Bound("llama-server's rate kept, 8 connections", "llama-8", "share_of_bare", Side.AT_LEAST, 0.88),
    Bound("delay added, 1 connection, µs at p50", "unary-1", "p50_added_us", Side.AT_MOST, 300.0),
)


def verdicts(figures: Figures, cells: Iterable[str]) -> list[Verdict]:
    """The result of each promise about these cells."""
    chosen = set(cells)
    return [verdict(bound, figures) for bound in BOUNDS if bound.cell in chosen]


def verdict(bound: Bound, figures: Figures) -> Verdict:
    if bound.of:
        measured = figures.ratio(SUBJECT, bound.of, bound.cell, bound.measure)
    else:
        measured = figures.get(SUBJECT, bound.cell, bound.measure)
    if measured is None:
        return Verdict(bound, Outcome.NOT_MEASURED)
    holds = measured.median <= bound.limit if bound.side is Side.AT_MOST else measured.median >= bound.limit
    return Verdict(bound, Outcome.HOLDS if holds else Outcome.FALLS_SHORT, measured)
