"""Parts of traces. Loads take 2 s and 1.5 GiB/s, stops 1 s, servers have 4 slots, service times are log-normal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotseat.simulation.trace import FIRST_DEVICE, Client, Memory, Model, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

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
