"""The promises about scheduling, and the result of each in one run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING

from bench.scheduling.runs import CLAIRVOYANT, TURNS
from bench.scheduling.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.scheduling.record import Record

    from hotseat.simulation.results import Figures

COLLATE = "collate"
WITHIN = 1.02
"""A mean latency that is at most this much longer counts as equal."""


class Side(Enum):
    AT_MOST = "≤"
    AT_LEAST = "≥"


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    measured: float
    side: Side
    limit: float

    @property
    def holds(self) -> bool:
        if self.side is Side.AT_MOST:
            return self.measured <= self.limit
        return self.measured >= self.limit

    def __str__(self) -> str:
        word = "met" if self.holds else "MISSED"
        return f"{word}: {self.promise} {self.side.value} {self.limit:g} (measured {self.measured:.3g})"


def verdicts(record: Record) -> list[Verdict]:
    """One for each promise about something that was measured."""
    return [
        *thrash(record),
        *no_regret(record),
        *waiting(record),
        *mixes(record),
        *foresight(record),
        *costs(record),
        *real(record),
    ]


def thrash(record: Record) -> Iterator[Verdict]:
    ours, theirs = record.mean("a", TURNS), record.mean("a", COLLATE)
    if ours and theirs:
        yield Verdict("a: throughput over collate's", ours.per_hour / theirs.per_hour, Side.AT_LEAST, 3.5)
        yield Verdict("a: loads over collate's", ours.loads / theirs.loads, Side.AT_MOST, 1 / 8)


def no_regret(record: Record) -> Iterator[Verdict]:
    """Where no policy can gain anything, every request has exactly collate's times."""
    for name in ("a2", "g"):
        pairs = list(zip(record.of(name, TURNS), record.of(name, COLLATE), strict=True))
        if pairs:
            same = fmean(ours.fingerprint == theirs.fingerprint for ours, theirs in pairs)
            yield Verdict(f"{name}: share of runs identical to collate's", same, Side.AT_LEAST, 1.0)


def waiting(record: Record) -> Iterator[Verdict]:
    alone = [name for name, workload in WORKLOADS.items() if workload.fits_one]
    shares = [each.share_of_bound for name in alone for each in record.of(name, TURNS)]
    if shares:
        yield Verdict("longest wait / bound, workloads where one model fits", max(shares), Side.AT_MOST, 1.0)
    if crowds := record.of("crowd", TURNS):
        worst = max(each.share_of_bound for each in crowds)
        yield Verdict(f"longest wait / bound, {len(crowds)} random scenarios", worst, Side.AT_MOST, 1.0)


def mixes(record: Record) -> Iterator[Verdict]:
    pairs = mix_pairs(record, COLLATE)
    if not pairs:
        return
    good = fmean(ours.client_mean_s <= WITHIN * theirs.client_mean_s for ours, theirs in pairs)
    yield Verdict(f"{len(pairs)} mixes: share better or within 2 % of collate", good, Side.AT_LEAST, 0.90)
    yield Verdict("mixes: geometric gain in mean latency over collate", gain(pairs), Side.AT_LEAST, 1.12)
    yield Verdict("mixes: share worse in everything", fmean(map(is_worse_in_all, pairs)), Side.AT_MOST, 0.01)


def mix_pairs(record: Record, rival: str) -> list[tuple[Figures, Figures]]:
    """hotseat's figures and the other policy's."""
    found = zip(record.of("mix", TURNS), record.of("mix", rival), strict=True)
    return [(ours.figures, theirs.figures) for ours, theirs in found]


def gain(pairs: Sequence[tuple[Figures, Figures]], figure: str = "client_mean_s") -> float:
    """Geometric mean of the other policy's figure over hotseat's: above 1 is better."""
    quotients = [max(getattr(theirs, figure), 0.01) / max(getattr(ours, figure), 0.01) for ours, theirs in pairs]
    return exp(fmean(map(log, quotients)))


def is_worse_in_all(pair: tuple[Figures, Figures]) -> bool:
    """By more than 2 % in mean latency, and at all in longest wait and makespan."""
    ours, theirs = pair
    return (
        ours.client_mean_s > WITHIN * theirs.client_mean_s
        and ours.longest_wait_s > theirs.longest_wait_s
        and ours.makespan_s > theirs.makespan_s
    )


def foresight(record: Record) -> Iterator[Verdict]:
    for name, limit in (("c", 1.15), ("c2", 1.15), ("c3", 1.20)):
        ours, best = record.mean(name, TURNS), record.mean(name, CLAIRVOYANT)
        if ours and best:
            yield Verdict(
                f"{name}: mean latency over the clairvoyant's", ours.mean_s / best.mean_s, Side.AT_MOST, limit
            )


LIMITS_US = {("ready path", 1, 0): 10.0, ("contended", 10, 0): 100.0, ("crowded", 1000, 10_000): 500.0}
"""By situation, models and requested queue length."""


def costs(record: Record) -> Iterator[Verdict]:
    for cost in record.costs:
        if limit := LIMITS_US.get((cost.what, cost.models, cost.requested)):
            size = f"{cost.models} models, {cost.resident} resident, {cost.waiting} waiting"
            yield Verdict(f"µs per decision, {cost.what} ({size})", cost.us_per_event, Side.AT_MOST, limit)


def real(record: Record) -> Iterator[Verdict]:
    for each in record.real:
        off = f"{each.workload}: real processes off the simulation"
        yield Verdict(f"{off}, loads", each.loads_off, Side.AT_MOST, 0.10)
        yield Verdict(f"{off}, mean latency", each.mean_off, Side.AT_MOST, 0.15)
