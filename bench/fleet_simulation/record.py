"""Everything that runs counted, as a JSON file: a page can be made from several of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
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

    @staticmethod
    def joined(records: Sequence[Record]) -> Record:
        return replace(records[0], runs=tuple(run for record in records for run in record.runs))

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(file: Path) -> Record:
        return msgspec.json.decode(file.read_bytes(), type=Record)
