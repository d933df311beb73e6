"""Nineteen seeded workloads, from common to adversarial. Each is a trace that the simulator replays to any policy.

Loads take 2 s and 1.5 GiB/s, stops 1 s, servers have 4 slots, service times are log-normal; 24 GiB unless stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from bench.scheduling.agents import embeddings_and_chat, night_batch, sub_agent_bursts, tool_loops
from bench.scheduling.trace_parts import SLOTS, STOP_S, load_s, log_normal, model, on

from hotseat.simulation.trace import Closed, Job, Memory, Model, Open, Pool, Step, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
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
