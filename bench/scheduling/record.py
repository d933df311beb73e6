"""The measurements of one run as a JSON file, from which a report can be made again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec
from bench.scheduling.costs import Cost  # noqa: TC002  # msgspec reads the annotations
from bench.scheduling.optimum import Ratio  # noqa: TC002  # msgspec reads the annotations
from bench.scheduling.placements import Placement  # noqa: TC002  # msgspec reads the annotations
from bench.scheduling.real import Comparison  # noqa: TC002  # msgspec reads the annotations
from bench.scheduling.runs import Outcome  # noqa: TC002  # msgspec reads the annotations

from hotseat.simulation.results import Figures

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(file: Path) -> Record:
        return msgspec.json.decode(file.read_bytes(), type=Record)


def mean_of(found: Iterable[Figures]) -> Figures:
    rows = list(found)
    means: dict[str, Any] = {each.name: fmean(getattr(row, each.name) for row in rows) for each in fields(Figures)}
    return Figures(**means)
