"""Cards that the scheduler chooses, beside fixed assignments of models to cards: `gpus: auto` against the best by hand.

An assignment is judged by what its clients get, so the best one knows the whole trace. A balanced one and random ones
are tried, and then the best one with models moved to other cards.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import msgspec
from bench.scheduling.mixes import agent, poisson
from bench.scheduling.runs import TURNS, WORKERS, decider
from bench.scheduling.workloads import log_normal, model

from hotseat.simulation.results import batch_completions, client_slowdowns, geometric_mean
from hotseat.simulation.simulator import play
from hotseat.simulation.trace import Client, Job, Memory, Model, Pool, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeAlias

    Assignment: TypeAlias = tuple[int, ...]
    """The number of each model's card."""

CARD_GIB = 24.0
SIZES = (22, 20, 18, 16, 14, 12, 9, 5)
"""Of eight models: more than four cards hold."""
MACHINES = {2: 8, 4: 8, 8: 16}
"""Models by number of cards."""
PLACED = range(51_000, 51_004)
TRIED = 40
"""So many assignments, and then as many moves of the best one's models."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One trace: geometric means over the clients of their slowdowns and completions; less is better."""

    cards: int
    models: int
    seed: int
    auto: float
    best: float
    usual: float
    """The median of the assignments that were tried first."""

    @property
    def ratio(self) -> float:
        return self.auto / self.best


def trace(cards: int, seed: int) -> Trace:
    """A client for each model in the mean: agents, people and a batch."""
    rng = Random(seed)
    models = [model(f"m{n}", SIZES[n % len(SIZES)]) for n in range(MACHINES[cards])]
    names = [each.name for each in models]
    clients: list[Client] = [agent(rng, f"a{n}", rng.sample(names, 2), 4.0) for n in range(len(models) * 5 // 8)]
    for n in range(len(models) // 4):
        clients += poisson(rng, f"p{n}", rng.sample(names, 3), 4.0)
    clients.append(Pool("batch", 4, tuple(Job(names[0], log_normal(rng, 4.0)) for _ in range(80)), start=60.0))
    return Trace(tuple(models), tuple(clients), Memory({f"gpu{n}": CARD_GIB for n in range(cards)}))


def cost(trace: Trace) -> float:
    run = play(trace, decider(TURNS, trace))
    return geometric_mean((client_slowdowns(run) | batch_completions(run)).values())


def chosen(trace: Trace) -> Trace:
    """Every model with `gpus: auto`."""
    return replace(trace, models=tuple(msgspec.structs.replace(each, gpus="auto") for each in trace.models))


def assigned(trace: Trace, cards: Assignment) -> Trace:
    """Each model declared on its card."""
    models = zip(trace.models, cards, strict=True)
    fixed = (msgspec.structs.replace(each, size={f"gpu{card}": each.size}) for each, card in models)
    return replace(trace, models=tuple(fixed))


def renumbered(cards: Sequence[int]) -> Assignment:
    """By first use."""
    order = list(dict.fromkeys(cards))
    return tuple(map(order.index, cards))


def first_tried(rng: Random, mix: Trace, cards: int, count: int) -> list[Assignment]:
    """The balanced one and random ones."""
    found = {balanced(mix, cards): None}
    while len(found) < count:
        found[renumbered([rng.randrange(cards) for _ in mix.models])] = None
    return [*found]


def balanced(mix: Trace, cards: int) -> Assignment:
    """Each model, the largest first, on the card with the least memory in use: what a person would try."""
    used, chosen_cards = [0.0] * cards, {}
    for each in sorted(mix.models, key=gib_of, reverse=True):
        chosen_cards[each.name] = card = used.index(min(used))
        used[card] += gib_of(each)
    return renumbered([chosen_cards[each.name] for each in mix.models])


def gib_of(model: Model) -> float:
    assert isinstance(model.size, float | int)
    return model.size


def placement(cards: int, seed: int, tried: int = TRIED) -> Placement:
    mix, rng = trace(cards, seed), Random(seed)
    costs = {each: cost(assigned(mix, each)) for each in first_tried(rng, mix, cards, tried)}
    usual = median(costs.values())
    for _ in range(tried):
        each = moved(rng, min(costs, key=costs.__getitem__), cards)
        if each not in costs:
            costs[each] = cost(assigned(mix, each))
    return Placement(cards, len(mix.models), seed, cost(chosen(mix)), min(costs.values()), usual)


def moved(rng: Random, cards: Assignment, number: int) -> Assignment:
    """The same with one model elsewhere, or with two exchanged."""
    changed, one, other = list(cards), *rng.sample(range(len(cards)), 2)
    if rng.random() < 0.5:
        changed[one], changed[other] = changed[other], changed[one]
    else:
        changed[one] = rng.randrange(number)
    return renumbered(changed)


def placements(seeds: Iterable[int], say: Callable[[str], None], tried: int = TRIED) -> list[Placement]:
    cells = [(cards, seed, tried) for cards in MACHINES for seed in seeds]
    say(f"{len(cells)} comparisons of placements")
    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(placement, *zip(*cells, strict=True)))


def by_machine(found: Iterable[Placement]) -> dict[tuple[int, int], list[Placement]]:
    """By the numbers of cards and of models."""
    machines: dict[tuple[int, int], list[Placement]] = {}
    for each in found:
        machines.setdefault((each.cards, each.models), []).append(each)
    return machines
