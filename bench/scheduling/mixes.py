"""Random scenarios that were not used for tuning: mixes of agents, people and batches, and crowds of clients."""

from __future__ import annotations

from random import Random

from bench.scheduling.workloads import log_normal, on

from hotseat.simulation.trace import Client, Closed, Job, Model, Open, Pool, Step, Trace

MIXES = range(31_000, 31_300)
"""Seeds that were not used while the policy was developed; 7000 to 7299 and 9000 to 9299 were."""
CROWDS = range(20_000, 21_000)


def mixed(seed: int) -> Trace:
    """Two to eight models of 2 to 23 GiB on 24 to 48 GiB, and two to eight clients of all kinds."""
    dice = Random(seed)
    count, gib = dice.randint(2, 8), dice.choice([24, 24, 32, 48])
    per_second = dice.choice([0.5, 1.5, 4.0])
    models = [some_model(dice, f"m{n}", per_second) for n in range(count)]
    clients: list[Client] = []
    for n in range(dice.randint(2, 8)):
        clients += some_client(dice, f"c{n}", models)
    return on(gib, models, clients)


def some_model(dice: Random, name: str, per_second: float) -> Model:
    gib = dice.choice([2, 5, 9, 14, 20, 23])
    return Model(name, round(1 + gib / per_second, 1), dice.choice([0.5, 1.0, 3.0]), dice.choice([1, 2, 4, 8]), gib)


def some_client(dice: Random, client: str, models: list[Model]) -> list[Client]:
    kind, service = dice.random(), dice.choice([1.0, 3.0, 8.0])
    names = [model.name for model in dice.sample(models, dice.randint(1, min(3, len(models))))]
    if kind < 0.6:
        return [agent(dice, client, names, service)]
    if kind < 0.85:
        return [*poisson(dice, client, names, service)]
    jobs = tuple(Job(names[0], log_normal(dice, service)) for _ in range(dice.randint(50, 200)))
    return [Pool(client, dice.choice([2, 8, 64]), jobs, start=dice.uniform(0, 120))]


def agent(dice: Random, client: str, names: list[str], service: float) -> Closed:
    """Thinks, sends requests, and sometimes changes to another model."""
    think, loyalty = dice.choice([0.3, 1.0, 4.0, 15.0, 40.0]), dice.choice([0.0, 0.5, 0.8, 0.95])
    name, steps = dice.choice(names), []
    for _ in range(dice.randint(30, 80)):
        if dice.random() > loyalty:
            name = dice.choice(names)
        steps.append(Step(dice.expovariate(1 / think), name, log_normal(dice, service)))
    return Closed(client, tuple(steps), start=dice.uniform(0, 30))


def poisson(dice: Random, client: str, names: list[str], service: float) -> list[Open]:
    now, gap, asked = 0.0, dice.choice([4.0, 10.0, 30.0]), []
    for _ in range(dice.randint(30, 80)):
        now += dice.expovariate(1 / gap)
        asked.append(Open(client, now, dice.choice(names), log_normal(dice, service)))
    return asked


def crowd(seed: int) -> Trace:
    """Two to five models of which one fits, with load times of 1 to 60 s, and many clients."""
    dice = Random(seed)
    models = [
        Model(f"m{n}", dice.choice([1.0, 3.0, 8.0, 20.0, 60.0]), dice.choice([0.5, 3.0]), dice.choice([1, 4]), 20.0)
        for n in range(dice.randint(2, 5))
    ]
    return on(24, models, [in_crowd(dice, f"c{n}", models) for n in range(dice.randint(2, 7))])


def in_crowd(dice: Random, client: str, models: list[Model]) -> Client:
    names = [model.name for model in dice.sample(models, dice.randint(1, len(models)))]
    service = dice.choice([0.5, 3.0, 10.0])
    if dice.random() < 0.7:
        thinks = [dice.expovariate(1 / dice.choice([0.3, 3.0, 30.0])) for _ in range(40)]
        return Closed(client, tuple(Step(think, dice.choice(names), log_normal(dice, service)) for think in thinks))
    jobs = tuple(Job(names[0], log_normal(dice, service)) for _ in range(100))
    return Pool(client, dice.choice([2, 16]), jobs, start=dice.uniform(0, 60))
