"""Runs one scenario with one policy, and many of them on all cores."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from bench.scheduling.clairvoyant import Clairvoyant
from bench.scheduling.mixes import crowd, mixed
from bench.scheduling.policies import RULES, peer
from bench.scheduling.workloads import WORKLOADS

from hotseat.catalog.catalog import Policy
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.bound import worst_share_of_bound
from hotseat.simulation.results import Figures, figures
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Decider, Turns, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hotseat.simulation.run_log import Run
    from hotseat.simulation.trace import Trace

WORKERS = min(2, os.cpu_count() or 1)
UNLIMITED_QUEUE = 1_000_000
"""No request is refused: waiting is what is compared."""

TURNS, CLAIRVOYANT = "turns", "clairvoyant"
PATIENCES = {TURNS: 2.0, "turns0": 0.0, "turns1": 1.0, "turns4": 4.0}
PEERS = tuple(RULES)

SCENARIOS: dict[str, Callable[[int], Trace]] = {
    **{name: workload.trace for name, workload in WORKLOADS.items()},
    "mix": mixed,
    "crowd": crowd,
}


@dataclass(frozen=True, slots=True)
class Cell:
    scenario: str
    seed: int
    decider: str


@dataclass(frozen=True, slots=True)
class Outcome:
    cell: Cell
    figures: Figures
    fingerprint: str
    """Of every request's times: equal if two policies did exactly the same."""
    share_of_bound: float = 0.0
    """Longest claim-to-ready relative to its bound, for the production scheduler."""


def outcome(cell: Cell) -> Outcome:
    trace = SCENARIOS[cell.scenario](cell.seed)
    run = play(trace, decider(cell.decider, trace))
    patience = PATIENCES.get(cell.decider)
    share = 0.0 if patience is None else worst_share_of_bound(trace, run, patience)
    return Outcome(cell, figures(run), fingerprint(run), share)


def decider(name: str, trace: Trace) -> Decider:
    catalog = catalog_of(trace, Policy(patience=PATIENCES.get(name, 0.0), max_queue=UNLIMITED_QUEUE))
    if name in PATIENCES:
        return Turns(Scheduler(catalog))
    return Clairvoyant(catalog, trace) if name == CLAIRVOYANT else peer(name, catalog)


def fingerprint(run: Run) -> str:
    times = [(request.started, request.finished) for request in run.requests]
    return sha256(repr(times).encode()).hexdigest()[:16]


def outcomes(cells: Sequence[Cell], say: Callable[[str], None]) -> list[Outcome]:
    """Every cell's outcome, in order; the slow ones start first."""
    with ProcessPoolExecutor(WORKERS) as pool:
        found = []
        for n, each in enumerate(pool.map(outcome, cells, chunksize=4), start=1):
            found.append(each)
            if n % 100 == 0:
                say(f"{n} of {len(cells)} runs")
        return found


def workload_cells(names: Iterable[str], seeds: Sequence[int]) -> list[Cell]:
    return [Cell(name, seed, each) for name in names for each in deciders_of(name) for seed in seeds]


def deciders_of(workload: str) -> tuple[str, ...]:
    """Other values of patience only where turns decide; a clairvoyant only where the future is known."""
    known = WORKLOADS[workload]
    ours = tuple(PATIENCES) if known.fits_one else (TURNS,)
    return (*PEERS, *ours, *([CLAIRVOYANT] if known.is_open else []))
