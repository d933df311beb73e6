"""The measurements of one run, and the promises about scheduling with the result of each in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import floor
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.report import Verdict
from bench.scheduling.comparison import against, noise, summary
from bench.scheduling.expected import baseline
from bench.scheduling.mixes import FAMILIES
from bench.scheduling.placements import Placement, by_machine
from bench.scheduling.runs import CLAIRVOYANT, COLLATE, TURNS, Outcome
from bench.scheduling.workloads import WAITING, WORKLOADS

from hotseat.simulation.results import Figures, geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.scheduling.comparison import Summary
    from bench.scheduling.costs import Cost
    from bench.scheduling.optimum import Ratio
    from bench.scheduling.real import Comparison


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    machine: str
    seconds: float
    outcomes: tuple[Outcome, ...]
    ratios: tuple[Ratio, ...] = ()
    costs: tuple[Cost, ...] = ()
    placements: tuple[Placement, ...] = ()
    real: tuple[Comparison, ...] = ()
    answered_s: float | None = None
    """How long the one request of f4 took with real processes."""

    def of(self, scenario: str, decider: str) -> list[Outcome]:
        """By seed."""
        return [each for each in self.outcomes if (each.cell.scenario, each.cell.decider) == (scenario, decider)]

    def mean(self, scenario: str, decider: str) -> Figures | None:
        """Over all seeds; None if it was not run."""
        found = self.of(scenario, decider)
        return mean_of(each.figures for each in found) if found else None


def mean_of(found: Iterable[Figures]) -> Figures:
    rows = list(found)
    means: dict[str, Any] = {each.name: fmean(getattr(row, each.name) for row in rows) for each in fields(Figures)}
    return Figures(**means)


ANSWERED_S = 12.0
OF_THE_BEST = 1.1
"""So much worse than the best assignment of models to cards may be what the scheduler chooses."""
MORE_POINTS = 4
"""So many per cent of the mixes more than the baseline must be no worse than collate."""


def at_most(promise: str, measured: float, limit: float) -> Verdict:
    return Verdict(promise, f"≤ {limit:g}", f"{measured:.3g}", measured <= limit)


def at_least(promise: str, measured: float, limit: float) -> Verdict:
    return Verdict(promise, f"≥ {limit:g}", f"{measured:.3g}", measured >= limit)


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
        yield at_least("a: throughput over collate's", ours.per_hour / theirs.per_hour, 3.5)
        yield at_most("a: loads over collate's", ours.loads / theirs.loads, 1 / 8)


def no_regret(record: Record) -> Iterator[Verdict]:
    """Where no policy can gain anything, every request has exactly collate's times."""
    for name in ("a2", "g"):
        pairs = list(zip(record.of(name, TURNS), record.of(name, COLLATE), strict=True))
        if pairs:
            same = fmean(ours.fingerprint == theirs.fingerprint for ours, theirs in pairs)
            yield at_least(f"{name}: share of runs identical to collate's", same, 1.0)


def waiting(record: Record) -> Iterator[Verdict]:
    alone = [name for name, workload in WORKLOADS.items() if workload.fits_one]
    shares = [each.share_of_bound for name in alone for each in record.of(name, TURNS)]
    if shares:
        yield at_most("longest wait / bound, workloads where one model fits", max(shares), 1.0)
    if crowds := record.of("crowd", TURNS):
        worst = max(each.share_of_bound for each in crowds)
        yield at_most(f"longest wait / bound, {len(crowds)} random scenarios", worst, 1.0)


def one_request(record: Record) -> Iterator[Verdict]:
    """Its response takes a second, so its slowdown is its latency in seconds."""
    promise = "f4: seconds until the one request is answered"
    if found := [each.clients[WAITING] for each in record.of("f4", TURNS)]:
        yield at_most(promise, max(found), ANSWERED_S)
    if record.answered_s is not None:
        yield at_most(f"{promise}, real processes", record.answered_s, ANSWERED_S)


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
    yield at_least(f"{name}: share no worse than collate {said}", ours.no_worse, more)
    lost = f"(baseline {len(before.worse_in_all)}, collate itself {len(floor.worse_in_all)})"
    yield at_most(f"{name}: worse than collate in everything {lost}", len(ours.worse_in_all), 0)
    gain, wait = rounded_down(before.gain), rounded_down(before.longest_wait)
    yield at_least(f"{name}: gain of clients over collate", ours.gain, gain)
    yield at_least(f"{name}: gain in longest wait over collate", ours.longest_wait, wait)
    yield at_most(f"{name}: longest wait / bound", ours.share_of_bound, 1.0)


def rounded_down(limit: float) -> float:
    """The baseline is kept with four digits: whoever equals it must not miss it."""
    return floor(limit * 1000) / 1000


def foresight(record: Record) -> Iterator[Verdict]:
    for name, limit in (("c", 1.15), ("c2", 1.15), ("c3", 1.20)):
        ours, best = record.mean(name, TURNS), record.mean(name, CLAIRVOYANT)
        if ours and best:
            yield at_most(f"{name}: slowdown over the clairvoyant's", ours.slowdown / best.slowdown, limit)


def placements(record: Record) -> Iterator[Verdict]:
    for (cards, models), found in by_machine(record.placements).items():
        ratio = geometric_mean(each.ratio for each in found)
        promise = f"{models} models on {cards} cards: slowdown over the best assignment's"
        yield at_most(promise, ratio, OF_THE_BEST)


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
            yield at_most(f"µs per decision, {cost.what} ({size})", cost.us_per_event, limit)


def real(record: Record) -> Iterator[Verdict]:
    for each in record.real:
        off = f"{each.workload}: real processes off the simulation"
        yield at_most(f"{off}, loads", each.loads_off, 0.10)
        yield at_most(f"{off}, mean latency", each.mean_off, 0.15)
