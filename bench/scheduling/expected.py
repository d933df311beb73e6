"""Figures that are kept: golden ones for the tests, and a baseline that a new policy is compared with.

`just bench-scheduling --golden` and `--baseline` write them: the second for the seeds to tune with and for those to
judge with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.scheduling.comparison import Gains, Mix, against, summary, values
from bench.scheduling.mixes import FAMILIES, HELD_OUT, TUNING
from bench.scheduling.runs import TURNS, Cell, mix_cells, outcome, outcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bench.scheduling.comparison import Summary

GOLDEN = Path(__file__).with_name("golden.json")
TOLERANCE = 0.02
COMPARED = ("loads", "per_hour", "mean_s", "p95_s", "longest_wait_s", "stalled")

GOLDEN_WORKLOADS = ("a", "a2", "b", "b2", "c", "d", "d2", "e", "f1", "f2", "f3", "g")
GOLDEN_MIXES = range(9000, 9012)


def golden_cells() -> list[Cell]:
    return [*(Cell(name, 1, TURNS) for name in GOLDEN_WORKLOADS), *(Cell("mix", seed, TURNS) for seed in GOLDEN_MIXES)]


def key(cell: Cell) -> str:
    return f"{cell.scenario} seed {cell.seed}"


def numbers(cell: Cell) -> dict[str, float]:
    found = outcome(cell).figures
    return {name: round(float(getattr(found, name)), 4) for name in COMPARED}


def write_golden() -> None:
    GOLDEN.write_text(json.dumps({key(cell): numbers(cell) for cell in golden_cells()}, indent=1) + "\n")


def read_golden() -> dict[str, dict[str, float]]:
    golden: dict[str, dict[str, float]] = json.loads(GOLDEN.read_text())
    return golden


BASELINE = Path(__file__).with_name("baseline.json")


def write_baseline(jitters: int, say: Callable[[str], None]) -> None:
    written: dict[str, list[Mix]] = {family: [] for family in FAMILIES}
    for seeds in (HELD_OUT, TUNING):
        found = outcomes(mix_cells(seeds, jitters), say)
        written = {family: [*before, *against(found, family)] for family, before in written.items()}
        BASELINE.write_text(as_text(written))


def as_text(families: dict[str, list[Mix]]) -> str:
    """One line for each mix: seed, gains, whether it is worse in everything, share of the bound."""
    parts = (f'"{name}": [\n' + ",\n".join(map(line, mixes)) + "\n]" for name, mixes in families.items())
    return "{" + ",\n".join(parts) + "}\n"


def line(mix: Mix) -> str:
    gains = [round(value, 4) for value in values(mix.gains)]
    return json.dumps([mix.seed, *gains, mix.is_worse_in_all, round(mix.share_of_bound, 4)])


def baseline(family: str, seeds: Iterable[int]) -> Summary | None:
    """The earlier scheduler on the same mixes; None if it is not known for all of them."""
    known = {mix.seed: mix for mix in read_baseline().get(family, ())}
    found = [known.get(seed) for seed in seeds]
    return summary([mix for mix in found if mix]) if found and all(found) else None


def read_baseline() -> dict[str, list[Mix]]:
    if not BASELINE.exists():
        return {}
    return {name: [mix_of(*row) for row in rows] for name, rows in json.loads(BASELINE.read_text()).items()}


def mix_of(
    seed: int, clients: float, longest_wait: float, makespan: float, loads: float, is_worse: bool, share: float
) -> Mix:
    return Mix(seed, Gains(clients, longest_wait, makespan, loads), is_worse, share)
