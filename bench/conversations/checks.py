"""The promises about conversations that return after a swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.conversations.cases import CASES
from bench.conversations.record import OFF, ON, STAYED
from bench.swap.checks import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.conversations.cases import Case
    from bench.conversations.record import Record

QUICKER, REUSED = 0.25, 0.99
NOISE, NOISE_S = 1.02, 0.005
"""How much longer a swap may take in which nothing is saved: two sides that do the same differ by this much."""


def verdicts(record: Record) -> Iterator[Verdict]:
    """Only about what was measured."""
    for case in CASES.values():
        if record.of(case.name, ON) and record.of(case.name, OFF):
            yield from of_returns(record, case)
    if record.swaps:
        yield of_swaps(record)
    if record.answers:
        yield of_answers(record)


def of_returns(record: Record, case: Case) -> Iterator[Verdict]:
    ratio = record.median(case.name, ON, "turn_s") / record.median(case.name, OFF, "turn_s")
    promise = f"{case.title}: time to the first token after the load, relative to recomputing"
    yield Verdict(promise, f"{QUICKER} or less", f"{ratio:.3f}", ratio <= QUICKER)
    share = min(each.share for each in record.of(case.name, ON))
    promise = f"{case.title}: tokens of the prompt reused, in the worst round"
    yield Verdict(promise, f"{REUSED:.0%} or more", f"{share:.1%}", share >= REUSED)


def of_swaps(record: Record) -> Verdict:
    kept, plain = record.swap_s(ON), record.swap_s(OFF)
    bound = plain * NOISE + NOISE_S
    promise = f"swap there and back with nothing worth saving: without × {NOISE} + {NOISE_S * 1000:.0f} ms"
    measured = f"{kept * 1000:,.0f} ms, without {plain * 1000:,.0f} ms"
    return Verdict(promise, f"{bound * 1000:,.0f} ms", measured, kept <= bound)


def of_answers(record: Record) -> Verdict:
    """A server that reuses tokens computes others in other batches, which may change a word; with a swap or without."""
    count, same = len(record.texts(ON)), record.equal_answers(ON, STAYED)
    promise = "greedy answers after a swap that are the same as without a swap"
    return Verdict(promise, f"{count} of {count}", f"{same} of {count}", same == count)
