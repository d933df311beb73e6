"""The promises about scheduling, and the result of each in one run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import floor
from statistics import fmean
from typing import TYPE_CHECKING

from bench.scheduling.baseline import baseline
from bench.scheduling.comparison import against, noise, summary
from bench.scheduling.mixes import FAMILIES
from bench.scheduling.placements import by_machine
from bench.scheduling.runs import CLAIRVOYANT, COLLATE, TURNS
from bench.scheduling.workloads import WAITING, WORKLOADS

from hotseat.simulation.results import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.scheduling.comparison import Summary
    from bench.scheduling.record import Record

ANSWERED_S = 12.0
OF_THE_BEST = 1.1
"""So much worse than the best assignment of models to cards may be what the scheduler chooses."""
MORE_POINTS = 4
"""So many per cent of the mixes more than the baseline must be no worse than collate."""


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
        *one_request(record),
        *mixes(record),
        *foresight(record),
        *placements(record),
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


def one_request(record: Record) -> Iterator[Verdict]:
    """Its response takes a second, so its slowdown is its latency in seconds."""
    promise = "f4: seconds until the one request is answered"
    if found := [each.clients[WAITING] for each in record.of("f4", TURNS)]:
        yield Verdict(promise, max(found), Side.AT_MOST, ANSWERED_S)
    if record.answered_s is not None:
        yield Verdict(f"{promise}, real processes", record.answered_s, Side.AT_MOST, ANSWERED_S)


def mixes(record: Record) -> Iterator[Verdict]:
    """Compared with collate, and with the scheduler of the baseline on the same mixes."""
    for name, family in FAMILIES.items():
        found = against(record.outcomes, name)
        before = baseline(name, [mix.seed for mix in found])
        if found and before:
            floor = summary(noise(record.outcomes, name))
            yield from mix_promises(f"{len(found)} {family.title}", summary(found), before, floor)


def mix_promises(name: str, ours: Summary, before: Summary, floor: Summary) -> Iterator[Verdict]:
    """The floor is collate against itself."""
    more = rounded_down(before.no_worse + MORE_POINTS / 100)
    said = f"(baseline {before.no_worse:.3g}, collate itself {floor.no_worse:.3g})"
    yield Verdict(f"{name}: share no worse than collate {said}", ours.no_worse, Side.AT_LEAST, more)
    lost = f"(baseline {len(before.worse_in_all)}, collate itself {len(floor.worse_in_all)})"
    yield Verdict(f"{name}: worse than collate in everything {lost}", len(ours.worse_in_all), Side.AT_MOST, 0)
    gain, wait = rounded_down(before.gain), rounded_down(before.longest_wait)
    yield Verdict(f"{name}: gain of clients over collate", ours.gain, Side.AT_LEAST, gain)
    yield Verdict(f"{name}: gain in longest wait over collate", ours.longest_wait, Side.AT_LEAST, wait)
    yield Verdict(f"{name}: longest wait / bound", ours.share_of_bound, Side.AT_MOST, 1.0)


def rounded_down(limit: float) -> float:
    """The baseline is kept with four digits: whoever equals it must not miss it."""
    return floor(limit * 1000) / 1000


def foresight(record: Record) -> Iterator[Verdict]:
    for name, limit in (("c", 1.15), ("c2", 1.15), ("c3", 1.20)):
        ours, best = record.mean(name, TURNS), record.mean(name, CLAIRVOYANT)
        if ours and best:
            yield Verdict(
                f"{name}: slowdown over the clairvoyant's", ours.slowdown / best.slowdown, Side.AT_MOST, limit
            )


def placements(record: Record) -> Iterator[Verdict]:
    for (cards, models), found in by_machine(record.placements).items():
        ratio = geometric_mean(each.ratio for each in found)
        promise = f"{models} models on {cards} cards: slowdown over the best assignment's"
        yield Verdict(promise, ratio, Side.AT_MOST, OF_THE_BEST)


LIMITS_US = {
    ("ready path", 1, 0): 10.0,
    ("contended", 10, 0): 100.0,
    ("crowded", 1000, 10_000): 500.0,
    ("crowded", 10_000, 10_000): 500.0,
}
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
