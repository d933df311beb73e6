"""The measurements of one run as a JSON file, from which a report can be made again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

import msgspec
from bench.swap.readiness import Noticed  # noqa: TC002  # msgspec reads the annotations
from bench.swap.spans import PARTS, Swap

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.identifiers import Seconds


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    machine: str
    server: str
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

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(*files: Path) -> Record:
        """The measurements of several runs on one machine, in order."""
        first, *others = (msgspec.json.decode(file.read_bytes(), type=Record) for file in files)
        return replace(
            first,
            swaps=first.swaps + tuple(swap for other in others for swap in other.swaps),
            noticed=first.noticed + tuple(noticed for other in others for noticed in other.noticed),
        )
