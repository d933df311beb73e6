"""Figures from samples: medians with spread, delays relative to the bare upstream, and promises about them. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

BARE = "bare"
ADDED = {"p50_us": "p50_added_us", "p99_us": "p99_added_us"}
SHARE = "share_of_bare"


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of one proxy in one cell of one round."""

    proxy: str
    cell: str
    round: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    median: float
    low: float
    high: float


class Figures:
    """Every figure of a run, by proxy, cell and measure; None if it was not measured."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._series: dict[tuple[str, str, str], dict[int, float]] = {}
        """By round."""
        for sample in with_comparisons(list(samples)):
            for measure, value in sample.values.items():
                self._series.setdefault((sample.proxy, sample.cell, measure), {})[sample.round] = value

    def get(self, proxy: str, cell: str, measure: str) -> Figure | None:
        return figure(self._series.get((proxy, cell, measure), {}).values())

    def ratio(self, proxy: str, other: str, cell: str, measure: str) -> Figure | None:
        """Of one proxy to another, within each round, because the machine's speed varies between rounds."""
        ours, theirs = (self._series.get((name, cell, measure), {}) for name in (proxy, other))
        return figure([ours[number] / theirs[number] for number in ours if theirs.get(number)])

    def proxies(self) -> list[str]:
        return list(dict.fromkeys(proxy for proxy, _, _ in self._series))

    def cells(self) -> list[str]:
        return list(dict.fromkeys(cell for _, cell, _ in self._series))


def figure(series: Collection[float]) -> Figure | None:
    return Figure(statistics.median(series), min(series), max(series)) if series else None


def with_comparisons(samples: list[Sample]) -> list[Sample]:
    """Each sample with its difference and ratio to the bare upstream in the same round."""
    bare = {(sample.cell, sample.round): sample.values for sample in samples if sample.proxy == BARE}
    return [compared(sample, bare.get((sample.cell, sample.round), {})) for sample in samples]


def compared(sample: Sample, bare: dict[str, float]) -> Sample:
    if sample.proxy == BARE:
        return sample
    values = dict(sample.values)
    for measure, added in ADDED.items():
        if measure in values and measure in bare:
            values[added] = values[measure] - bare[measure]
    if bare.get("per_s") and "per_s" in values:
        values[SHARE] = values["per_s"] / bare["per_s"]
    return Sample(sample.proxy, sample.cell, sample.round, values)


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
