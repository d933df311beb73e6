"""Runs one scenario with one policy, and many of them on two cores.

The outcomes of policies that do not change while ours does are kept in a file that is named after their code.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from bench.scheduling.bound import worst_share_of_bound
from bench.scheduling.clairvoyant import Clairvoyant
from bench.scheduling.mixes import FAMILIES, crowd, jittered
from bench.scheduling.policies import RULES, Peer
from bench.scheduling.workloads import WORKLOADS

from hotseat.catalog.catalog import Policy
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation import trace
from hotseat.simulation.results import Figures, batch_completions, client_slowdowns, figures
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import Decider, Turns, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hotseat.simulation.results import Run
    from hotseat.simulation.trace import Trace

WORKERS = min(2, os.cpu_count() or 1)
UNLIMITED_QUEUE = 1_000_000
"""No request is refused: waiting is what is compared."""

TURNS, COLLATE, CLAIRVOYANT = "turns", "collate", "clairvoyant"
PATIENCE = 2.0
PEERS = tuple(RULES)

SCENARIOS: dict[str, Callable[[int], Trace]] = {
    **{name: workload.trace for name, workload in WORKLOADS.items()},
    **{name: family.trace for name, family in FAMILIES.items()},
    "crowd": crowd,
}


@dataclass(frozen=True, slots=True)
class Cell:
    scenario: str
    seed: int
    decider: str
    jitter: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    cell: Cell
    figures: Figures
    clients: dict[str, float]
    """Slowdown, or of a batch the seconds until it was complete."""
    fingerprint: str
    """Of every request's times: equal if two policies did exactly the same."""
    share_of_bound: float = 0.0
    """Longest claim-to-ready relative to its bound, for the production scheduler."""


def outcome(cell: Cell) -> Outcome:
    trace = jittered(SCENARIOS[cell.scenario](cell.seed), cell.jitter)
    run = play(trace, decider(cell.decider, trace))
    share = worst_share_of_bound(trace, run, Policy(PATIENCE)) if cell.decider == TURNS else 0.0
    clients = client_slowdowns(run) | batch_completions(run)
    return Outcome(cell, figures(run), clients, fingerprint(run), share)


def decider(name: str, trace: Trace) -> Decider:
    catalog = catalog_of(trace, Policy(patience=PATIENCE if name == TURNS else 0.0, max_queue=UNLIMITED_QUEUE))
    if name == TURNS:
        return Turns(Scheduler(catalog))
    return Clairvoyant(catalog, trace) if name == CLAIRVOYANT else Peer(catalog, RULES[name])


def fingerprint(run: Run) -> str:
    times = [(request.started, request.finished) for request in run.requests]
    return sha256(repr(times).encode()).hexdigest()[:16]


def outcomes(cells: Sequence[Cell], say: Callable[[str], None]) -> list[Outcome]:
    """Every cell's outcome, in order; those of other programs' policies are kept for the next time."""
    known = {each.cell: each for each in kept()}
    found = {each.cell: each for each in played([cell for cell in cells if cell not in known], say)}
    if theirs := [each for cell, each in found.items() if cell.decider != TURNS]:
        write(msgspec.json.encode([*known.values(), *theirs]))
    return [known.get(cell) or found[cell] for cell in cells]


def kept() -> list[Outcome]:
    content = read()
    return msgspec.json.decode(content, type=list[Outcome]) if content else []


def played(cells: Sequence[Cell], say: Callable[[str], None]) -> Iterator[Outcome]:
    """The slow ones start first."""
    with ProcessPoolExecutor(WORKERS) as pool:
        for n, each in enumerate(pool.map(outcome, cells, chunksize=4), start=1):
            yield each
            if n % 100 == 0:
                say(f"{n} of {len(cells)} runs")


def workload_cells(names: Iterable[str], seeds: Sequence[int]) -> list[Cell]:
    """With a clairvoyant only where the future is known."""
    policies = {name: (*PEERS, TURNS, *([CLAIRVOYANT] if WORKLOADS[name].is_open else [])) for name in names}
    return [Cell(name, seed, each) for name, deciders in policies.items() for each in deciders for seed in seeds]


def mix_cells(seeds: Sequence[int], jitters: int, rivals: Sequence[str] = (COLLATE,)) -> list[Cell]:
    """Every policy with the same jitters, and collate with as many others, for the noise floor."""
    last = {COLLATE: 2 * jitters}
    return [
        Cell(name, seed, decider, jitter)
        for name, family in FAMILIES.items()
        for decider in (*rivals, TURNS)
        for seed in seeds[: family.count]
        for jitter in range(1, last.get(decider, jitters) + 1)
    ]


HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".cache" / "bench-scheduling"
SIMULATOR = Path(trace.__file__).parent
OURS = ("clairvoyant", "mixes", "policies", "runs", "workloads")
SOURCES = (*(HERE / f"{name}.py" for name in OURS), *sorted(SIMULATOR.glob("*.py")))


def digest() -> str:
    return sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]


DIGEST = digest()
"""Of the code that this process runs, even if the files change meanwhile."""


def read() -> bytes:
    """Empty if nothing was kept for this code."""
    return current().read_bytes() if current().exists() else b""


def write(content: bytes) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    unfinished = current().with_suffix(".part")
    unfinished.write_bytes(content)
    unfinished.replace(current())


def current() -> Path:
    return FOLDER / f"{DIGEST}.json"
