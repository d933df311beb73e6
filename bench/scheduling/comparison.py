"""How a policy does on random mixes, beside another one. Pure.

Each client has one vote: its slowdown, or the completion of its batch, relative to the other policy. Seconds are not
averaged over clients, because a batch has thousands of them. Each mix is played with several jitters, and their means
are compared; collate against itself with other jitters is the noise floor.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from bench.scheduling.runs import COLLATE, TURNS

from hotseat.simulation.results import geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.scheduling.runs import Outcome

WITHIN = 1.02
"""A figure that is at most this much worse counts as equal."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one policy made of one mix."""

    clients: Mapping[str, float]
    longest_wait_s: float
    makespan_s: float
    loads: float


@dataclass(frozen=True, slots=True)
class Gains:
    """The other policy's figures over ours: above 1, ours is better."""

    clients: float
    """Geometric mean over the clients."""
    longest_wait: float
    makespan: float
    loads: float

    def is_below(self, other: Gains) -> bool:
        return (
            self.clients < other.clients and self.longest_wait < other.longest_wait and self.makespan < other.makespan
        )


@dataclass(frozen=True, slots=True)
class Mix:
    """One mix with two policies."""

    seed: int
    gains: Gains
    is_worse_in_all: bool
    """In clients, longest wait and makespan: by more than 2 %, and worse than each run of the other policy."""
    share_of_bound: float = 0.0


@dataclass(frozen=True, slots=True)
class Summary:
    mixes: int
    no_worse: float
    """Share of mixes in which the clients' gain is at least 1, or less by at most 2 %."""
    gain: float
    longest_wait: float
    makespan: float
    loads: float
    worse_in_all: tuple[int, ...]
    """The seeds."""
    worst: float
    best: float
    share_of_bound: float


def against(outcomes: Iterable[Outcome], family: str, rival: str = COLLATE) -> list[Mix]:
    """hotseat beside the other policy, with the same jitters."""
    return [compared(seed, ours, same) for seed, ours, same, _ in rows(outcomes, family, rival)]


def noise(outcomes: Iterable[Outcome], family: str) -> list[Mix]:
    """collate beside itself: its runs with other jitters than hotseat's, and those with the same."""
    return [compared(seed, other, same) for seed, _, same, other in rows(outcomes, family, COLLATE) if other]


def rows(
    outcomes: Iterable[Outcome], family: str, rival: str
) -> Iterator[tuple[int, list[Outcome], list[Outcome], list[Outcome]]]:
    """Each seed with hotseat's runs, the other policy's with the same jitters, and those with other jitters."""
    found = [each for each in outcomes if each.cell.scenario == family]
    theirs = by_seed(each for each in found if each.cell.decider == rival)
    for seed, ours in by_seed(each for each in found if each.cell.decider == TURNS).items():
        jitters = {each.cell.jitter for each in ours}
        same = [each for each in theirs.get(seed, ()) if each.cell.jitter in jitters]
        if same:
            yield seed, ours, same, [each for each in theirs[seed] if each.cell.jitter not in jitters]


def by_seed(outcomes: Iterable[Outcome]) -> dict[int, list[Outcome]]:
    found: dict[int, list[Outcome]] = {}
    for each in outcomes:
        found.setdefault(each.cell.seed, []).append(each)
    return found


def compared(seed: int, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> Mix:
    found = gains(score(ours), score(theirs))
    return Mix(seed, found, found.is_below(noise_floor(theirs)), max(each.share_of_bound for each in ours))


def noise_floor(runs: Sequence[Outcome]) -> Gains:
    """The worst run relative to the mean of all in each figure, but at least 2 % worse."""
    mean = score(runs)
    alone = [gains(score([run]), mean) for run in runs]
    return Gains(*(min(1 / WITHIN, *figure) for figure in zip(*map(values, alone), strict=True)))


def values(found: Gains) -> tuple[float, float, float, float]:
    return found.clients, found.longest_wait, found.makespan, found.loads


def score(runs: Sequence[Outcome]) -> Score:
    """The mean over the jitters."""
    return Score(
        {client: geometric_mean(run.clients[client] for run in runs) for client in runs[0].clients},
        fmean(run.figures.longest_wait_s for run in runs),
        fmean(run.figures.makespan_s for run in runs),
        fmean(run.figures.loads for run in runs),
    )


def gains(ours: Score, theirs: Score) -> Gains:
    return Gains(
        geometric_mean(theirs.clients[client] / ours.clients[client] for client in ours.clients),
        theirs.longest_wait_s / ours.longest_wait_s,
        theirs.makespan_s / ours.makespan_s,
        theirs.loads / ours.loads,
    )


def summary(mixes: Sequence[Mix]) -> Summary:
    clients = [mix.gains.clients for mix in mixes]
    return Summary(
        mixes=len(mixes),
        no_worse=fmean(gain >= 1 / WITHIN for gain in clients),
        gain=geometric_mean(clients),
        longest_wait=geometric_mean(mix.gains.longest_wait for mix in mixes),
        makespan=geometric_mean(mix.gains.makespan for mix in mixes),
        loads=geometric_mean(mix.gains.loads for mix in mixes),
        worse_in_all=tuple(mix.seed for mix in mixes if mix.is_worse_in_all),
        worst=min(clients),
        best=max(clients),
        share_of_bound=max(mix.share_of_bound for mix in mixes),
    )
