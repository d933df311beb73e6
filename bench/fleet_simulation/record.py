"""The results of runs as a JSON file; a page can be made from several of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
from bench.fleet_simulation.costs import Cost  # noqa: TC002  # msgspec reads the annotations
from bench.fleet_simulation.figures import Figures  # noqa: TC002  # msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Record:
    date: str
    machine: str
    seed: int
    runs: tuple[Figures, ...]
    costs: tuple[Cost, ...] = ()

    @staticmethod
    def joined(records: Sequence[Record]) -> Record:
        """All runs, and the last measurement of the cost of decisions."""
        runs = tuple(run for record in records for run in record.runs)
        return replace(records[-1], runs=runs, costs=next((each.costs for each in reversed(records) if each.costs), ()))

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(file: Path) -> Record:
        return msgspec.json.decode(file.read_bytes(), type=Record)
