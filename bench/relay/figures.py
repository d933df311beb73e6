"""Computes figures from samples: medians with spread, and delays relative to the bare upstream. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
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
