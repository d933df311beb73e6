"""Traffic of agents: loops that call tools, bursts of sub-agents, embeddings beside chat, a batch beside a person.

Four workloads and a family of random mixes of the same clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import TYPE_CHECKING

from bench.scheduling.trace_parts import log_normal, model, on

from hotseat.simulation.trace import Burst, Bursts, Client, Closed, Job, Model, Open, Pool, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Crew:
    """The models of an agent, by task; the same model may have several tasks."""

    planner: str
    coder: str
    helper: str


CREW = Crew("planner", "coder", "helper")


# Clients


def tool_calls(rng: Random, client: str, crew: Crew, rounds: int) -> Closed:
    """Plans, then calls tools between the requests; a third of the tools ask the small helper."""
    steps: list[Step] = []
    for _ in range(rounds):
        steps.append(Step(tool_s(rng), crew.planner, log_normal(rng, 5.0)))
        for _ in range(rng.randint(2, 6)):
            steps.append(Step(tool_s(rng), crew.coder, log_normal(rng, 4.0)))
            if rng.random() < 1 / 3:
                steps.append(Step(tool_s(rng), crew.helper, log_normal(rng, 0.8)))
    return Closed(client, tuple(steps), start=rng.uniform(0, 20))


def tool_s(rng: Random) -> float:
    """How long a tool takes: 0.1 to 5 s, most of them short."""
    return 0.1 * exp(rng.random() * log(50))


def sub_agents(rng: Random, client: str, crew: Crew, rounds: int) -> Bursts:
    """Plans, starts three to eight sub-agents at once, waits for all of them, and continues."""
    bursts: list[Burst] = []
    for _ in range(rounds):
        bursts.append(Burst(tool_s(rng), (Job(crew.planner, log_normal(rng, 5.0)),)))
        jobs = tuple(Job(crew.coder, log_normal(rng, 6.0)) for _ in range(rng.randint(3, 8)))
        bursts.append(Burst(tool_s(rng), jobs))
    return Bursts(client, tuple(bursts), start=rng.uniform(0, 20))


def person(rng: Random, client: str, name: str, visits: int, away_s: float) -> Closed:
    """Comes back after a while, and then asks three to six times."""
    steps: list[Step] = []
    for _ in range(visits):
        pauses = [rng.uniform(0.5, 1.5) * away_s, *(rng.uniform(5, 20) for _ in range(rng.randint(2, 5)))]
        steps += [Step(pause, name, log_normal(rng, 6.0)) for pause in pauses]
    return Closed(client, tuple(steps))


def embeddings(rng: Random, client: str, name: str, gap_s: float, count: int) -> list[Open]:
    """Short requests of an editor or a search, at times of their own."""
    now, asked = 0.0, []
    for _ in range(count):
        now += rng.expovariate(1 / gap_s)
        asked.append(Open(client, now, name, log_normal(rng, 0.2)))
    return asked


def batch(rng: Random, client: str, name: str, count: int, width: int, service: float) -> Pool:
    return Pool(client, width, tuple(Job(name, log_normal(rng, service)) for _ in range(count)), rng.uniform(30, 120))


# Workloads


def tool_loops(seed: int) -> Trace:
    rng = Random(seed)
    clients = [tool_calls(rng, f"ag{n}", CREW, rounds=12) for n in range(3)]
    return on(24, [model("planner", 20), model("coder", 14), model("helper", 5)], clients)


def sub_agent_bursts(seed: int) -> Trace:
    rng = Random(seed)
    clients: list[Client] = [sub_agents(rng, f"lead{n}", CREW, rounds=12) for n in range(3)]
    return on(24, [model("planner", 20), model("coder", 14)], clients)


def embeddings_and_chat(seed: int) -> Trace:
    rng = Random(seed)
    chats = [person(rng, f"u{n}", "chat", visits=5, away_s=90) for n in range(3)]
    index = batch(rng, "index", "embed", count=300, width=4, service=0.3)
    search = embeddings(rng, "search", "embed", gap_s=20.0, count=60)
    clients: list[Client] = [*chats, *search, index]
    return on(24, [model("chat", 20), model("embed", 5)], clients)


def night_batch(seed: int) -> Trace:
    rng = Random(seed)
    nightly = batch(rng, "batch", "bulk", count=400, width=16, service=10.0)
    return on(24, [model("chat", 14), model("bulk", 20)], [person(rng, "user", "chat", 8, away_s=180), nightly])


# Random mixes


def agent_mix(seed: int) -> Trace:
    """Two to four models of 2 to 23 GiB on 24 to 48 GiB, and two to six agents, people and batches."""
    rng = Random(seed)
    gib, per_second = rng.choice([24, 24, 32, 48]), rng.choice([0.5, 1.5, 4.0])
    sizes = [rng.choice([14, 20, 23]), rng.choice([9, 14, 20]), rng.choice([2, 5, 9]), rng.choice([2, 5])]
    models = [agents_model(rng, f"m{n}", size, per_second) for n, size in enumerate(sizes[: rng.randint(2, 4)])]
    clients: list[Client] = []
    for n in range(rng.randint(2, 6)):
        clients += agents_client(rng, f"c{n}", [each.name for each in models])
    return on(gib, models, clients)


def agents_model(rng: Random, name: str, gib: float, per_second: float) -> Model:
    return Model(name, round(1 + gib / per_second, 1), rng.choice([0.5, 1.0, 3.0]), rng.choice([1, 2, 4, 8]), gib)


def agents_client(rng: Random, client: str, names: Sequence[str]) -> list[Client]:
    kind = rng.random()
    crew = Crew(names[0], names[1], names[-1]) if rng.random() < 0.7 else Crew(*rng.choices(names, k=3))
    if kind < 0.4:
        return [tool_calls(rng, client, crew, rounds=rng.randint(5, 12))]
    if kind < 0.65:
        return [sub_agents(rng, client, crew, rounds=rng.randint(4, 10))]
    if kind < 0.8:
        return [person(rng, client, crew.planner, rng.randint(4, 8), rng.choice([30.0, 90.0, 240.0]))]
    if kind < 0.9:
        return [*embeddings(rng, client, names[-1], rng.choice([2.0, 10.0, 30.0]), rng.randint(30, 100))]
    return [batch(rng, client, crew.coder, rng.randint(50, 200), rng.choice([2, 8, 16]), rng.choice([1.0, 5.0, 10.0]))]
