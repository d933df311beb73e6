"""Results that every test run compares with, so that a change of decisions is always deliberate.

`just bench-scheduling --golden` writes them; tests/bench/test_scheduling_golden.py compares.
"""

from __future__ import annotations

import json
from pathlib import Path

from bench.scheduling.runs import TURNS, Cell, outcome

GOLDEN = Path(__file__).with_name("golden.json")
TOLERANCE = 0.02
COMPARED = ("loads", "per_hour", "mean_s", "p95_s", "longest_wait_s", "stalled")

WORKLOADS = ("a", "a2", "b", "b2", "c", "d", "d2", "e", "f1", "f2", "f3", "g")
MIXES = range(9000, 9012)


def cells() -> list[Cell]:
    return [*(Cell(name, 1, TURNS) for name in WORKLOADS), *(Cell("mix", seed, TURNS) for seed in MIXES)]


def key(cell: Cell) -> str:
    return f"{cell.scenario} seed {cell.seed}"


def numbers(cell: Cell) -> dict[str, float]:
    found = outcome(cell).figures
    return {name: round(float(getattr(found, name)), 4) for name in COMPARED}


def write_golden() -> None:
    GOLDEN.write_text(json.dumps({key(cell): numbers(cell) for cell in cells()}, indent=1) + "\n")


def read_golden() -> dict[str, dict[str, float]]:
    golden: dict[str, dict[str, float]] = json.loads(GOLDEN.read_text())
    return golden
