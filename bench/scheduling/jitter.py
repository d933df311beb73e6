"""A trace with slightly other times: what two policies differ by must be more than what such a change makes of one."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, assert_never

import msgspec

from hotseat.simulation.trace import Burst, Bursts, Client, Closed, Job, Open, Pool, Step

if TYPE_CHECKING:
    from hotseat.simulation.trace import Trace

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
