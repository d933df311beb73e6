"""The measurements of one run, the promises about them, and their tables."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.report import Rows, Verdict, ms, promise_rows, spread
from bench.swap.cases import AHEAD, ALL, BARE, BEHIND_DRAIN, CASES, HOTSEAT, LEAST_S, PART, WAITING, Noticed
from bench.swap.sides import PARTS, Swap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Seconds


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    load: float
    """The machine's load average when the run began."""
    swaps: tuple[Swap, ...]
    noticed: tuple[Noticed, ...] = ()

    def of(self, case: str, side: str) -> list[Swap]:
        return [swap for swap in self.swaps if (swap.case, swap.side) == (case, side)]

    def total(self, case: str, side: str) -> Seconds:
        return median(swap.total for swap in self.of(case, side))

    def after_drain(self, case: str, side: str) -> Seconds:
        return median(swap.after_drain for swap in self.of(case, side))

    def words(self, case: str, side: str) -> float:
        return median(swap.words for swap in self.of(case, side))

    def part(self, case: str, side: str, part: str) -> Seconds:
        return median(swap.spans.get(part, 0.0) for swap in self.of(case, side))

    def parts(self, case: str, side: str) -> dict[str, Seconds]:
        return {part: self.part(case, side, part) for part in PARTS}


PROMPT = 0.95
"""Of all starts: the rest allows for a busy machine."""
RATIO, ABOVE_S = 1.15, 0.015
FASTER, SLOWER = 0.25, 0.05
"""By how much reading ahead must shorten the rest of a swap, and may slow a model in use at most."""


def verdicts(record: Record) -> Iterator[Verdict]:
    """Only about what was measured."""
    yield from beside_bare(record)
    if record.of(BEHIND_DRAIN.name, AHEAD):
        yield from of_reading_ahead(record)
    if record.noticed:
        prompt = sum(each.is_prompt for each in record.noticed) / len(record.noticed)
        promise = f"a ready server is noticed within {LEAST_S * 1000:.0f} ms or {PART:.0%} of its load"
        yield Verdict(promise, f"{PROMPT:.0%} of {len(record.noticed)} starts", f"{prompt:.1%}", prompt >= PROMPT)


def of_reading_ahead(record: Record) -> Iterator[Verdict]:
    rest = {side: record.after_drain(BEHIND_DRAIN.name, side) for side in (WAITING, AHEAD)}
    words = {side: record.words(BEHIND_DRAIN.name, side) for side in (WAITING, AHEAD)}
    gain, loss = 1 - rest[AHEAD] / rest[WAITING], 1 - words[AHEAD] / words[WAITING]
    promise = "the rest of a swap from disk after the drain is shorter with read-ahead"
    yield Verdict(promise, f"{FASTER:.0%} or more", f"{gain:.0%}", gain >= FASTER)
    promise = "read-ahead does not slow down a model in use"
    yield Verdict(promise, f"{SLOWER:.0%} or less", f"{loss:.1%}", loss <= SLOWER)


def beside_bare(record: Record) -> Iterator[Verdict]:
    for case in CASES.values():
        if record.of(case.name, HOTSEAT):
            bare, ours = record.total(case.name, BARE), record.total(case.name, HOTSEAT)
            bound = bare * RATIO + ABOVE_S
            promise = f"{case.title}: the engine's own time × {RATIO} + {ABOVE_S * 1000:.0f} ms"
            yield Verdict(promise, f"{bound * 1000:.0f} ms", f"{ours * 1000:.0f} ms", ours <= bound)


SIDES = (BARE, HOTSEAT, WAITING, AHEAD)


def tables(record: Record) -> dict[str, Rows]:
    """By their headings on the page; empty if it was not measured."""
    return {
        "Parts": part_rows(record),
        "Read-ahead": ahead_rows(record) if record.of(BEHIND_DRAIN.name, AHEAD) else [],
        "Detecting readiness": readiness_rows(record) if record.noticed else [],
        "Targets": promise_rows(verdicts(record)),
    }


def ahead_rows(record: Record) -> Rows:
    sides = [
        (record.after_drain(BEHIND_DRAIN.name, side), record.words(BEHIND_DRAIN.name, side))
        for side in (WAITING, AHEAD)
    ]
    return [
        ["", "without read-ahead", "with it"],
        ["rest of the swap when the drain is over, ms", *(ms(rest) for rest, _ in sides)],
        ["words per second of the small model", *(f"{words:,.0f}" for _, words in sides)],
    ]


def readiness_rows(record: Record) -> Rows:
    late = sorted(each.late_s for each in record.noticed)
    return [
        ["starts", "half noticed within, ms", "95 %, ms", "all, ms"],
        [str(len(late)), ms(median(late)), ms(late[int(0.95 * len(late))]), ms(late[-1])],
    ]


def part_rows(record: Record) -> Rows:
    """Medians in milliseconds, and the span from the tenth to the ninetieth percentile of the whole."""
    head = ["swap to", "by", *PARTS, "whole", "p10–p90", "pairs"]
    sides = [(case, side) for case in ALL.values() for side in SIDES if record.of(case.name, side)]
    return [head, *([case.title, side, *figures(record, case.name, side)] for case, side in sides)]


def figures(record: Record, case: str, side: str) -> list[str]:
    found = record.of(case, side)
    parts = [ms(record.part(case, side, part)) if part in found[0].spans else "" for part in PARTS]
    return [*parts, ms(record.total(case, side)), spread([swap.total for swap in found]), str(len(found))]
