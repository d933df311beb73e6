"""The exact offline optimum of small instances, and how far each policy is from it.

One model resident, one slot, known arrivals, one service time per model. A dynamic programme over (requests served
of each model, resident model) keeps the Pareto front of (clock, total latency). The optimum knows the future, but
like every policy it loads only for a request that has arrived.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from bench.scheduling.runs import PEERS, TURNS, WORKERS, decider
from bench.scheduling.workloads import on

from hotseat.simulation.results import latency, quantile
from hotseat.simulation.simulator import play
from hotseat.simulation.trace import Model, Open

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotseat.simulation.trace import Trace

SEED = 7
DECIDERS = (*PEERS, TURNS)

Point: TypeAlias = tuple[float, float]
"""Clock and total latency so far."""
Situation: TypeAlias = tuple[tuple[int, ...], int | None]
"""How many requests of each model were served, and which model is resident."""


@dataclass(frozen=True, slots=True)
class Instance:
    models: tuple[Model, ...]
    services: tuple[float, ...]
    arrivals: tuple[tuple[float, ...], ...]
    """Of each model, in order."""

    def trace(self) -> Trace:
        asked = [
            Open(f"{model.name}{n}", at, model.name, service)
            for model, service, arrivals in zip(self.models, self.services, self.arrivals, strict=True)
            for n, at in enumerate(arrivals)
        ]
        return on(24, self.models, asked)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Total latency relative to the optimum's, over all instances."""

    decider: str
    mean: float
    p95: float
    worst: float


def ratios(count: int) -> list[Ratio]:
    with ProcessPoolExecutor(WORKERS) as pool:
        rows = list(pool.map(compared, instances(count), chunksize=8))
    return [ratio(name, sorted(row[n] for row in rows)) for n, name in enumerate(DECIDERS)]


def ratio(name: str, ordered: Sequence[float]) -> Ratio:
    return Ratio(name, fmean(ordered), quantile(ordered, 0.95), ordered[-1])


def compared(instance: Instance) -> list[float]:
    best, trace = least_total_latency(instance), instance.trace()
    return [sum(map(latency, play(trace, decider(name, trace)).requests)) / best for name in DECIDERS]


def least_total_latency(instance: Instance) -> float:
    counts = tuple(map(len, instance.arrivals))
    front: dict[Situation, list[Point]] = {((0,) * len(counts), None): [(0.0, 0.0)]}
    for _ in range(sum(counts)):
        reached: dict[Situation, list[Point]] = {}
        for situation, points in front.items():
            for after, more in served_next(instance, situation, points):
                reached.setdefault(after, []).extend(more)
        front = {situation: undominated(points) for situation, points in reached.items()}
    return min(total for points in front.values() for _, total in points)


def served_next(
    instance: Instance, situation: Situation, points: Iterable[Point]
) -> Iterator[tuple[Situation, list[Point]]]:
    """The situations after one more request of each model."""
    served, resident = situation
    for n, model in enumerate(instance.models):
        if served[n] == len(instance.arrivals[n]):
            continue
        arrived = instance.arrivals[n][served[n]]
        swap = 0.0 if resident == n else model.load + (0.0 if resident is None else instance.models[resident].stop)
        after = (*served[:n], served[n] + 1, *served[n + 1 :])
        ends = [(max(clock, arrived) + swap + instance.services[n], total) for clock, total in points]
        yield (after, n), [(end, total + end - arrived) for end, total in ends]


def undominated(points: list[Point]) -> list[Point]:
    """The points that no other beats in both clock and latency."""
    kept: list[Point] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1] - 1e-9:
            kept.append(point)
    return kept


def instances(count: int) -> Iterator[Instance]:
    rng = Random(SEED)
    return (instance(rng) for _ in range(count))


def instance(rng: Random) -> Instance:
    """Two or three models, 9 to 26 requests, low or high load, rare or frequent changes of model."""
    kinds = rng.choice([2, 2, 3])
    count = rng.randint(10, 26) if kinds == 2 else rng.randint(9, 21)
    models = [Model("ABC"[n], rng.choice([5.0, 10.0, 20.0, 40.0]), 1.0, 1, 20.0) for n in range(kinds)]
    services = [rng.choice([1.0, 3.0, 6.0]) for _ in range(kinds)]
    arrivals: list[list[float]] = [[] for _ in range(kinds)]
    now, chosen = 0.0, rng.randrange(kinds)
    gap, loyalty = rng.choice([1.0, 4.0, 12.0, 30.0]), rng.choice([0.0, 0.3, 0.6, 0.85])
    for _ in range(count):
        now += rng.expovariate(1 / gap)
        chosen = chosen if rng.random() <= loyalty else rng.randrange(kinds)
        arrivals[chosen].append(round(now, 2))
    return Instance(tuple(models), tuple(services), tuple(map(tuple, arrivals)))
