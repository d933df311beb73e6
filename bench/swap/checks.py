"""The promises about the cost of a swap compared with the bare engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.swap.cases import AHEAD, BARE, BEHIND_DRAIN, CASES, HOTSEAT, WAITING
from bench.swap.readiness import LEAST_S, PART

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.swap.record import Record

PROMPT = 0.95
"""Of all starts: the rest allows for a busy machine."""
RATIO, ABOVE_S = 1.15, 0.015
FASTER, SLOWER = 0.25, 0.05
"""By how much reading ahead must shorten the rest of a swap, and may slow a model in use at most."""


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    allowed: str
    measured: str
    holds: bool

    def __str__(self) -> str:
        return f"{'met' if self.holds else 'MISSED'}: {self.promise}: {self.measured}, allowed {self.allowed}"


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
