"""The measurements of one run as a JSON file, from which a report can be made again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from hotseat.identifiers import Seconds  # noqa: TC001  # msgspec reads the annotations

if TYPE_CHECKING:
    from pathlib import Path

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
    machine: str
    server: str
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

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(*files: Path) -> Record:
        """The measurements of several runs on one machine, in order."""
        first, *others = (msgspec.json.decode(file.read_bytes(), type=Record) for file in files)
        for other in others:
            first = replace(
                first,
                returns=first.returns + other.returns,
                swaps=first.swaps + other.swaps,
                answers=first.answers + other.answers,
            )
        return first
