"""Nineteen seeded workloads, from common to adversarial, and a family of random mixes of agents.

Each is a trace that the simulator replays to any policy. Loads take 2 s and 1.5 GiB/s, stops 1 s, servers have 4 slots,
service times are log-normal; 24 GiB unless stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import TYPE_CHECKING

from hotseat.simulation.trace import (
    FIRST_DEVICE,
    Burst,
    Bursts,
    Client,
    Closed,
    Job,
    Memory,
    Model,
    Open,
    Pool,
    Step,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SLOTS = 4
STOP_S = 1.0
SPREAD = 0.6
"""The standard deviation of service times, as a share of their mean."""


def load_s(gib: float) -> float:
    return round(2.0 + gib / 1.5, 1)


def model(name: str, gib: float) -> Model:
    return Model(name, load_s(gib), STOP_S, SLOTS, gib)


def on(gib: float, models: Iterable[Model], clients: Sequence[Client]) -> Trace:
    return Trace(tuple(models), tuple(clients), Memory({FIRST_DEVICE: gib}))


def log_normal(rng: Random, mean: float) -> float:
    variance = math.log(1 + SPREAD * SPREAD)
    return rng.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))


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


WAITING = "waiting"
"""Who asks once in f4."""


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    title: str
    trace: Callable[[int], Trace]
    fits_one: bool = True
    """No two of its models fit together: the waiting bound is proved for it."""
    is_open: bool = False
    """Arrivals do not depend on answers, so a clairvoyant policy can know them."""


def two_clients(seed: int, each: int = 60) -> Trace:
    rng = Random(seed)
    steps = {name: tuple(Step(0.5 * (n > 0), name, log_normal(rng, 3.0)) for n in range(each)) for name in ("A", "B")}
    clients = [Closed(f"c{name}", steps[name], start=0.1 * n) for n, name in enumerate(steps)]
    return on(24, [model("A", 20), model("B", 20)], clients)


def one_client_alternating(seed: int) -> Trace:
    rng = Random(seed)
    steps = tuple(Step(0.5, "AB"[n % 2], log_normal(rng, 3.0)) for n in range(60))
    return on(24, [model("A", 20), model("B", 20)], [Closed("c", steps)])


def agents(seed: int, count: int = 4) -> Trace:
    rng = Random(seed)
    clients = [
        Closed(f"ag{n}", tuple(Step(rng.uniform(0.5, 2.5), f"m{n}", log_normal(rng, 4.0)) for _ in range(40)))
        for n in range(count)
    ]
    return on(24, [model(f"m{n}", 20) for n in range(count)], clients)


def eight_agents(seed: int, each: int = 30) -> Trace:
    rng = Random(seed)
    clients = [Closed(f"ag{n}", tasks(rng, each)) for n in range(8)]
    return on(24, [model(f"m{n}", 18) for n in range(3)], clients)


def tasks(rng: Random, count: int) -> tuple[Step, ...]:
    """Tasks of three to eight steps on one model each."""
    steps: list[Step] = []
    while len(steps) < count:
        name = f"m{rng.randrange(3)}"
        more = rng.randint(3, 8)
        steps += [Step(rng.uniform(0.3, 2.0), name, log_normal(rng, 4.0)) for _ in range(more)]
    return tuple(steps[:count])


ZIPF_SIZES = (5, 20, 9, 2, 14, 5, 1, 30, 9, 5, 20, 2, 14, 9, 5, 3, 30, 9, 5, 20)


def zipf_clients(seed: int, count: int, rate: float) -> list[Open]:
    """Poisson arrivals of ten users, popularity 1/rank over twenty models."""
    rng, now, asked = Random(seed), 0.0, []
    weights = [1 / (n + 1) for n in range(len(ZIPF_SIZES))]
    for n in range(count):
        now += rng.expovariate(rate)
        chosen = rng.choices(range(len(ZIPF_SIZES)), weights)[0]
        asked.append(Open(f"u{n % 10}", now, f"m{chosen:02d}", log_normal(rng, 5.0)))
    return asked


def zipf(seed: int, count: int = 1500, rate: float = 0.10) -> Trace:
    models = [model(f"m{n:02d}", gib) for n, gib in enumerate(ZIPF_SIZES)]
    return on(48, models, zipf_clients(seed, count, rate))


def zipf_on_two(seed: int) -> Trace:
    models = [Model(f"m{n:02d}", load_s(gib), STOP_S, SLOTS, size) for n, (gib, size) in enumerate(dealt_to_two())]
    return Trace(tuple(models), tuple(zipf_clients(seed, 1500, 0.10)), Memory({"gpu0": 24, "gpu1": 24}))


def dealt_to_two() -> list[tuple[float, dict[str, float]]]:
    """Placement is declared: 30 GiB over both devices, the others assigned in turn, largest first."""
    largest_first = sorted((gib, -n) for n, gib in enumerate(ZIPF_SIZES) if gib <= 24)[::-1]
    device = {-n: f"gpu{place % 2}" for place, (_, n) in enumerate(largest_first)}
    both = ("gpu0", "gpu1")
    return [
        (gib, {device[n]: float(gib)} if n in device else dict.fromkeys(both, gib / 2))
        for n, gib in enumerate(ZIPF_SIZES)
    ]


def zipf_heavy(seed: int) -> Trace:
    return zipf(seed, count=2000, rate=0.4)


def rag(seed: int, users: int = 5, visits: int = 6, turns: int = 4) -> Trace:
    rng = Random(seed)
    clients = []
    for user in range(users):
        steps: list[Step] = []
        for turn in [turn for _ in range(visits) for turn in range(turns)]:
            pause = rng.uniform(60, 240) if turn == 0 else rng.uniform(5, 25)
            chat = Step(0.05, "chat", log_normal(rng, 8.0))
            steps += [Step(pause, "embed", 0.1), Step(0.05, "rerank", 0.5), chat]
        clients.append(Closed(f"u{user}", tuple(steps), start=rng.uniform(0, 60)))
    return on(24, [model("chat", 19), model("embed", 2.5), model("rerank", 4)], clients)


def planners_and_coders(seed: int, rounds: int = 25) -> Trace:
    rng = Random(seed)
    clients = []
    for user in range(3):
        steps: list[Step] = []
        for _ in range(rounds):
            steps.append(Step(rng.uniform(0.5, 2), "planner", log_normal(rng, 5.0)))
            more = rng.randint(2, 5)
            steps += [Step(rng.uniform(0.3, 1.5), "coder", log_normal(rng, 6.0)) for _ in range(more)]
        clients.append(Closed(f"u{user}", tuple(steps), start=2.0 * user))
    return on(24, [model("planner", 20), model("coder", 20)], clients)


def user_and_batch(seed: int, turns: int = 25, jobs: int = 600, width: int = 8) -> Trace:
    rng = Random(seed)
    user = Closed("user", tuple(Step(rng.uniform(10, 30), "chat", log_normal(rng, 4.0)) for _ in range(turns)))
    batch = Pool("batch", width, tuple(Job("bulk", log_normal(rng, 6.0)) for _ in range(jobs)))
    return on(24, [model("chat", 20), model("bulk", 20)], [user, batch])


def busy_model(seed: int, each: int = 150) -> Trace:
    rng = Random(seed)
    clients = [
        Closed(f"hot{n}", tuple(Step(0.2, "A", log_normal(rng, 4.0)) for _ in range(each)), start=float(n))
        for n in range(3)
    ]
    cold = Closed("cold", tuple(Step(5.0, "B", 2.0) for _ in range(15)), start=10.0)
    return on(24, [model("A", 20), model("B", 20)], [*clients, cold])


def cyclic(_seed: int, fit: int = 4, count: int = 240) -> Trace:
    asked = [Open("cyc", 6.0 * n, f"m{n % (fit + 1)}", 1.0) for n in range(count)]
    return on(10.0 * fit, [model(f"m{n}", 10) for n in range(fit + 1)], asked)


def misleading_gaps(_seed: int, count: int = 40) -> Trace:
    fickle = Closed("fickle", tuple(Step(0.5 if n % 2 else 35.0, "A", 1.0) for n in range(count)))
    steady = Closed("steady", tuple(Step(1.0, "B", 2.0) for _ in range(count * 3)))
    return on(24, [model("A", 20), model("B", 20)], [fickle, steady])


def one_request(_seed: int, each: int = 50) -> Trace:
    """Three overlapping clients keep A busy, and somebody asks B once."""
    hot = [Closed(f"hot{n}", (Step(0.0, "A", 1 + n / 3), *[Step(0.05, "A", 1.0)] * each)) for n in range(3)]
    models = [Model(name, 1.0, STOP_S, SLOTS, 20.0) for name in "AB"]
    return on(24, models, [*hot, Closed(WAITING, (Step(0.0, "B", 1.0),), start=10.0)])


def single(seed: int) -> Trace:
    rng, now, asked = Random(seed), 0.0, []
    for _ in range(200):
        now += rng.expovariate(0.5)
        asked.append(Open("u", now, "A", log_normal(rng, 3.0)))
    return on(24, [model("A", 20)], asked)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("a", "two clients, a model each, closed loop", two_clients),
        Workload("a2", "one client alternating between two models", one_client_alternating),
        Workload("b", "4 agents on 4 models", agents),
        Workload("b2", "8 agents over 3 models", eight_agents),
        Workload("c", "Zipf over 20 models, 48 GiB", zipf, fits_one=False, is_open=True),
        Workload("c2", "the same on 2 × 24 GiB", zipf_on_two, fits_one=False, is_open=True),
        Workload("c3", "the same at 4 × the rate", zipf_heavy, fits_one=False, is_open=True),
        Workload("d", "embed, rerank, chat; any two fit", rag, fits_one=False),
        Workload("d2", "3 agents, planner and coder in turn", planners_and_coders),
        Workload("e", "one user beside a batch of 600", user_and_batch),
        Workload("f1", "three clients keep A busy for ever", busy_model),
        Workload("f2", "cyclic over five models, four fit", cyclic, fits_one=False, is_open=True),
        Workload("f3", "gaps that mislead", misleading_gaps),
        Workload("f4", "one request beside three busy clients", one_request),
        Workload("g", "one model", single, is_open=True),
        Workload("h1", "3 agents call tools; planner, coder, helper", tool_loops, fits_one=False),
        Workload("h2", "3 agents with bursts of sub-agents", sub_agent_bursts),
        Workload("h3", "embeddings beside chat", embeddings_and_chat),
        Workload("h4", "a nightly batch beside a person", night_batch),
    )
}
SEEDS = (1, 2, 3, 4, 5)
