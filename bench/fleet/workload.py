"""The workload: models by Zipf's law, day and night, hosts of three sizes, some of which fail.

None of it is measured. It is an assumption about a fleet with requests for many more models than fit, written down so
that everybody can repeat it.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from math import pi, sin
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from hotseat.identifiers import ClientId, HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Instant, Seconds

SIZES_GIB = ((5, 0.5), (9, 0.25), (18, 0.15), (40, 0.08), (70, 0.02))
"""Of models, with their share."""
MEMORY_GIB = ((24, 0.6), (48, 0.3), (80, 0.1))
"""Of hosts, with their share; one device each."""
SITE, ITS_MODELS = "eu", 0.02
"""A label that every other host has and one model in fifty requires."""
SLOTS = 4
REQUESTS_PER_HOST_S = 0.25
ZIPF = 1.1
SERVICE_S, SPREAD = 3.0, 0.8
"""Log-normal: median and sigma; the mean is 4.1 s."""
NOON_TO_NIGHT = 3.0
DISK_GIB_S, START_S = 1.5, 2.0
STOP_S: Seconds = 1.0
CLIENTS = 5000
FAILING, DOWN_S = 0.05, 120.0
"""This share of the hosts fails once, and comes back empty after so many seconds."""


class Model(NamedTuple):
    name: ModelName
    gib: int
    site: str

    @property
    def load_s(self) -> Seconds:
        return START_S + self.gib / DISK_GIB_S


class Machine(NamedTuple):
    name: HostName
    gib: int
    site: str


class Ask(NamedTuple):
    at: Instant
    model: Model
    client: ClientId
    service_s: Seconds


@dataclass(frozen=True, slots=True)
class Workload:
    machines: tuple[Machine, ...]
    models: tuple[Model, ...]
    requests: int
    seed: int

    @property
    def day_s(self) -> Seconds:
        """All requests are in one day, which is as long as they need."""
        return self.requests / (REQUESTS_PER_HOST_S * len(self.machines))

    def asks(self) -> Iterator[Ask]:
        """In the order of time."""
        rng = Random(self.seed)
        shares = list(accumulate(rank**-ZIPF for rank in range(1, len(self.models) + 1)))
        now = 0.0
        mean = REQUESTS_PER_HOST_S * len(self.machines)
        swing = (NOON_TO_NIGHT - 1.0) / (NOON_TO_NIGHT + 1.0)
        for _ in range(self.requests):
            now += rng.expovariate(mean * (1.0 - swing * sin(2 * pi * (now / self.day_s + 0.25))))
            rank = bisect(shares, rng.random() * shares[-1])
            model = self.models[min(rank, len(self.models) - 1)]
            crowd = max(1, round(CLIENTS * (rank + 1) ** -ZIPF / shares[-1]))
            client = ClientId(f"{model.name}/{rng.randrange(crowd)}")
            yield Ask(now, model, client, rng.lognormvariate(0.0, SPREAD) * SERVICE_S)

    def failures(self) -> list[tuple[Instant, HostName]]:
        rng = Random(self.seed + 1)
        failing = rng.sample([machine.name for machine in self.machines], round(FAILING * len(self.machines)))
        return [(rng.uniform(0.1, 0.9) * self.day_s, name) for name in failing]


def workload(hosts: int, models: int, requests: int, seed: int) -> Workload:
    """Sizes are distributed evenly and then shuffled, so that small fleets have large hosts, too."""
    rng = Random(seed + 2)
    memory, sizes = dealt(MEMORY_GIB, hosts, rng), dealt(SIZES_GIB, models, rng)
    machines = [Machine(HostName(f"h{n:04}"), gib, SITE if n % 2 else "") for n, gib in enumerate(memory)]
    offered = [
        Model(ModelName(f"m{n:05}"), gib, SITE if rng.random() < ITS_MODELS else "") for n, gib in enumerate(sizes)
    ]
    return Workload(tuple(machines), tuple(offered), requests, seed)


def dealt(shares: tuple[tuple[int, float], ...], count: int, rng: Random) -> list[int]:
    cards = [value for value, share in shares for _ in range(max(1, round(share * count)))][:count]
    cards += [shares[0][0]] * (count - len(cards))
    rng.shuffle(cards)
    return cards
