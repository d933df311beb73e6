"""Random scenarios: mixes of agents, people and batches, crowds of clients, and the same with slightly other times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, assert_never

import msgspec
from bench.scheduling.workloads import agent_mix, log_normal, on

from hotseat.simulation.trace import Burst, Bursts, Client, Closed, Job, Model, Open, Pool, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.simulation.trace import Trace

TUNING = range(7_000, 7_300)
"""Seeds to develop a policy with; figures about them are published nowhere."""
HELD_OUT = range(41_000, 41_300)
"""Seeds to judge a policy with: no choice was made on them. 7000 to 7299, 9000 to 9299 and 31000 to 31299 were seen."""
CROWDS = range(20_000, 21_000)


def mixed(seed: int) -> Trace:
    """Two to eight models of 2 to 23 GiB on 24 to 48 GiB, and two to eight clients of all kinds."""
    rng = Random(seed)
    count, gib = rng.randint(2, 8), rng.choice([24, 24, 32, 48])
    per_second = rng.choice([0.5, 1.5, 4.0])
    models = [some_model(rng, f"m{n}", per_second) for n in range(count)]
    clients: list[Client] = []
    for n in range(rng.randint(2, 8)):
        clients += some_client(rng, f"c{n}", models)
    return on(gib, models, clients)


def some_model(rng: Random, name: str, per_second: float) -> Model:
    gib = rng.choice([2, 5, 9, 14, 20, 23])
    return Model(name, round(1 + gib / per_second, 1), rng.choice([0.5, 1.0, 3.0]), rng.choice([1, 2, 4, 8]), gib)


def some_client(rng: Random, client: str, models: list[Model]) -> list[Client]:
    kind, service = rng.random(), rng.choice([1.0, 3.0, 8.0])
    names = [model.name for model in rng.sample(models, rng.randint(1, min(3, len(models))))]
    if kind < 0.6:
        return [agent(rng, client, names, service)]
    if kind < 0.85:
        return [*poisson(rng, client, names, service)]
    jobs = tuple(Job(names[0], log_normal(rng, service)) for _ in range(rng.randint(50, 200)))
    return [Pool(client, rng.choice([2, 8, 64]), jobs, start=rng.uniform(0, 120))]


def agent(rng: Random, client: str, names: list[str], service: float) -> Closed:
    """Thinks, sends requests, and sometimes changes to another model."""
    think, loyalty = rng.choice([0.3, 1.0, 4.0, 15.0, 40.0]), rng.choice([0.0, 0.5, 0.8, 0.95])
    name, steps = rng.choice(names), []
    for _ in range(rng.randint(30, 80)):
        if rng.random() > loyalty:
            name = rng.choice(names)
        steps.append(Step(rng.expovariate(1 / think), name, log_normal(rng, service)))
    return Closed(client, tuple(steps), start=rng.uniform(0, 30))


def poisson(rng: Random, client: str, names: list[str], service: float) -> list[Open]:
    now, gap, asked = 0.0, rng.choice([4.0, 10.0, 30.0]), []
    for _ in range(rng.randint(30, 80)):
        now += rng.expovariate(1 / gap)
        asked.append(Open(client, now, rng.choice(names), log_normal(rng, service)))
    return asked


def crowd(seed: int) -> Trace:
    """Two to five models of which one fits, with load times of 1 to 60 s, and many clients."""
    rng = Random(seed)
    models = [
        Model(f"m{n}", rng.choice([1.0, 3.0, 8.0, 20.0, 60.0]), rng.choice([0.5, 3.0]), rng.choice([1, 4]), 20.0)
        for n in range(rng.randint(2, 5))
    ]
    return on(24, models, [in_crowd(rng, f"c{n}", models) for n in range(rng.randint(2, 7))])


def in_crowd(rng: Random, client: str, models: list[Model]) -> Client:
    names = [model.name for model in rng.sample(models, rng.randint(1, len(models)))]
    service = rng.choice([0.5, 3.0, 10.0])
    if rng.random() < 0.7:
        thinks = [rng.expovariate(1 / rng.choice([0.3, 3.0, 30.0])) for _ in range(40)]
        return Closed(client, tuple(Step(think, rng.choice(names), log_normal(rng, service)) for think in thinks))
    jobs = tuple(Job(names[0], log_normal(rng, service)) for _ in range(100))
    return Pool(client, rng.choice([2, 16]), jobs, start=rng.uniform(0, 60))


@dataclass(frozen=True, slots=True)
class Family:
    """Random scenarios on which policies are compared."""

    title: str
    trace: Callable[[int], Trace]
    count: int
    """How many seeds are used."""


FAMILIES = {"mix": Family("mixes", mixed, 300), "agents": Family("mixes of agents", agent_mix, 120)}


MOST = 0.01


def jittered(trace: Trace, jitter: int) -> Trace:
    """Every service and think time is up to 1 % longer or shorter; jitter 0 changes nothing."""
    rng = Random(jitter)
    return replace(trace, clients=tuple(changed(rng, client) for client in trace.clients)) if jitter else trace


def changed(rng: Random, client: Client) -> Client:
    def about(seconds: float) -> float:
        return seconds * rng.uniform(1 - MOST, 1 + MOST)

    def jobs_about(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        return tuple(Job(job.model, about(job.service)) for job in jobs)

    match client:
        case Open():
            return msgspec.structs.replace(client, service=about(client.service))
        case Closed():
            steps = tuple(Step(about(step.think), step.model, about(step.service)) for step in client.steps)
            return msgspec.structs.replace(client, steps=steps)
        case Bursts():
            bursts = tuple(Burst(about(burst.think), jobs_about(burst.jobs)) for burst in client.bursts)
            return msgspec.structs.replace(client, bursts=bursts)
        case Pool():
            return msgspec.structs.replace(client, jobs=jobs_about(client.jobs))
        case _:
            assert_never(client)
