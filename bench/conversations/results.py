"""What is measured, the results of one run, the promises about conversations after a swap, and the tables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

from bench.report import Rows, Verdict, ms, promise_rows, spread
from bench.swap.sides import BIG, TINY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Seconds

IDLE = ("LLAMA_ARG_CACHE_IDLE_SLOTS=0",)
"""Automatic slots keep idle conversations, which otherwise leave for the server's cache in RAM and cannot be saved."""


@dataclass(frozen=True, slots=True)
class Case:
    model: str
    slots: str
    options: str
    tokens: int
    """Of the first message."""
    talks: int = 1
    """Conversations that return one after the other."""
    env: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.model}-{self.slots}"

    @property
    def title(self) -> str:
        size = "1.6 GB" if self.is_big else "6.7 MB"
        return f"{size}, {SLOTS[self.slots]}, {self.talks} × {self.tokens:,} tokens"

    @property
    def is_big(self) -> bool:
        return self.model == BIG


SLOTS = {"1": "1 slot", "4": "4 slots", "auto": "automatic slots", "idle": "automatic slots that stay"}
CASES = {
    case.name: case
    for case in (
        Case(TINY, "1", "-np 1", 6_000),
        Case(TINY, "4", "-np 4 -c 32768", 6_000, talks=3),  # each slot has a quarter of the context
        Case(TINY, "auto", "", 6_000),
        Case(TINY, "idle", "-c 32768", 6_000, talks=3, env=IDLE),
        Case(BIG, "1", "-np 1", 2_600),
        Case(BIG, "4", "-np 4 -c 16384", 2_600),
        Case(BIG, "auto", "", 2_600),
    )
}
SHORT = Case(TINY, "auto", "", 10)
"""A conversation that is not worth saving."""
MANY = Case(TINY, "4", "-np 4", 0, talks=4)
"""Many conversations, whose answers are compared."""


ON, OFF = "on", "off"
STAYED = "without a swap"
"""Conversations that go on at once: their server reuses what it has in memory."""


@dataclass(frozen=True, slots=True)
class Return:
    """A model was swapped away and came back, and each of its conversations had one more turn."""

    case: str
    side: str
    away_s: Seconds
    """Until the other model had answered."""
    whole_s: Seconds
    """From each request to its first token, the load included."""
    turn_s: Seconds
    """The same without the load; reading saved conversations is not part of a load."""
    cached: int
    computed: int
    texts: tuple[str, ...]

    @property
    def share(self) -> float:
        """Of the prompts' tokens that were not computed again."""
        return self.cached / (self.cached + self.computed)


@dataclass(frozen=True, slots=True)
class Swap:
    """There and back, with nothing worth saving."""

    side: str
    took_s: Seconds


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    load: float
    """The machine's load average when the run began."""
    returns: tuple[Return, ...] = ()
    swaps: tuple[Swap, ...] = ()
    answers: tuple[Return, ...] = ()
    """Of many short conversations, for their texts."""

    def of(self, case: str, side: str) -> list[Return]:
        return [each for each in self.returns if (each.case, each.side) == (case, side)]

    def median(self, case: str, side: str, field: str) -> float:
        return float(median(getattr(each, field) for each in self.of(case, side)))

    def swap_s(self, side: str) -> Seconds:
        return median(each.took_s for each in self.swaps if each.side == side)

    def texts(self, side: str) -> list[str]:
        return [*chain.from_iterable(each.texts for each in self.answers if each.side == side)]

    def equal_answers(self, one: str, other: str) -> int:
        return sum(first == second for first, second in zip(self.texts(one), self.texts(other), strict=True))


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


def tables(record: Record) -> dict[str, Rows]:
    """By their headings on the page; empty if it was not measured."""
    return {
        "The next turn": return_rows(record) if record.returns else [],
        "Answers": answer_rows(record) if record.answers else [],
        "Targets": promise_rows(verdicts(record)),
    }


def return_rows(record: Record) -> Rows:
    """Medians in milliseconds."""
    head = ["model", "`conversations`", "next turn", "p10–p90", "with load", "away", "reused", "rounds"]
    sides = [(case, side) for case in CASES.values() for side in (OFF, ON) if record.of(case.name, side)]
    return [head, *([case.title, side, *figures(record, case.name, side)] for case, side in sides)]


def figures(record: Record, case: str, side: str) -> list[str]:
    found = record.of(case, side)
    times = {field: record.median(case, side, field) for field in ("turn_s", "whole_s", "away_s", "share")}
    return [
        ms(times["turn_s"]),
        spread([each.turn_s for each in found]),
        ms(times["whole_s"]),
        ms(times["away_s"]),
        f"{times['share']:.1%}",
        str(len(found)),
    ]


def answer_rows(record: Record) -> Rows:
    """Of conversations whose answers were compared."""
    those = [each for each in record.answers if each.side == ON]
    cached, computed = sum(each.cached for each in those), sum(each.computed for each in those)
    return [
        ["answers", ""],
        ["compared", str(len(record.texts(ON)))],
        ["tokens reused after the swap", f"{cached / (cached + computed):.1%}"],
        ["the same as without a swap", str(record.equal_answers(ON, STAYED))],
        ["the same as when the whole conversation is computed again", str(record.equal_answers(ON, OFF))],
        ["… without a swap", str(record.equal_answers(STAYED, OFF))],
    ]
