"""What a swap is promised to cost beside the bare engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.swap.cases import BARE, CASES, HOTSEAT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.swap.record import Record

RATIO, ABOVE_S = 1.15, 0.030


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    allowed: str
    measured: str
    holds: bool

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FALLS SHORT'}: {self.promise}: {self.measured}, allowed {self.allowed}"


def verdicts(record: Record) -> Iterator[Verdict]:
    """About what was measured; nothing about what was not."""
    for case in CASES.values():
        if record.of(case.name, HOTSEAT):
            bare, ours = record.total(case.name, BARE), record.total(case.name, HOTSEAT)
            bound = bare * RATIO + ABOVE_S
            promise = f"{case.title}: the engine's own time × {RATIO} + {ABOVE_S * 1000:.0f} ms"
            yield Verdict(promise, f"{bound * 1000:.0f} ms", f"{ours * 1000:.0f} ms", ours <= bound)
