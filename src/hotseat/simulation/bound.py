"""The proven bound of a model's wait for its turn if one model fits at a time, and the waits of a run.

Between a model's claim and its load every other contender has at most one turn, and one more for requests that are
older than the claim. So, with `turn_j = patience × (load_j + slowest load)`:

    wait_b ≤ Σ_j (load_j + stop_j + drain_j) + Σ_{j≠b} (turn_j + max(load_j, turn_j))

`drain_j` is the longest request in flight: without cutting requests no better bound is possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.simulation.trace import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.simulation.run_log import Request, Run, Stay
    from hotseat.simulation.trace import Trace


@dataclass(frozen=True, slots=True)
class Claim:
    """One load that requests waited for, from the start of its claim until it was ready."""

    model: ModelName
    since: Instant
    ready: Instant

    @property
    def waited_s(self) -> Seconds:
        return self.ready - self.since


def worst_share_of_bound(trace: Trace, run: Run, patience: float) -> float:
    """The longest wait from claim to ready, as a share of its bound; above 1 the bound is violated."""
    return max((claim.waited_s / bound_s(trace, claim.model, patience) for claim in claims(run)), default=0.0)


def bound_s(trace: Trace, wanted: str, patience: float) -> Seconds:
    drains: dict[str, Seconds] = {}
    for job in (job for client in trace.clients for job in jobs_of(client)):
        drains[job.model] = max(job.service, drains.get(job.model, 0.0))
    contenders = [model for model in trace.models if model.name in drains]
    slowest = max(model.load for model in contenders)
    total = 0.0
    for model in contenders:
        total += model.load + model.stop + drains[model.name]
        if model.name != wanted:
            turn = patience * (model.load + slowest)
            total += turn + max(model.load, turn)
    return total


def claims(run: Run) -> Iterator[Claim]:
    """A claim starts with the oldest waiting request, but not before the model's last turn ended."""
    last: dict[ModelName, Stay] = {}
    asking: dict[ModelName, list[Request]] = {}
    for request in run.requests:
        asking.setdefault(request.model, []).append(request)
    for stay in run.stays:
        before, last[stay.model] = last.get(stay.model), stay
        waiting = [request.arrived for request in asking.get(stay.model, ()) if _waits(request, stay.asked)]
        if waiting and stay.ready is not None:
            yield Claim(stay.model, max(min(waiting), _end_of_turn(before)), stay.ready)


def _waits(request: Request, now: Instant) -> bool:
    return request.arrived <= now and (request.started is None or request.started >= now)


def _end_of_turn(stay: Stay | None) -> Instant:
    if stay is None or stay.stopping is None:
        return 0.0
    return stay.stopping if stay.draining is None else stay.draining
