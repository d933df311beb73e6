"""The waits of a run, compared with the bound of hotseat/scheduling/bound.py: proved if one model fits at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.scheduling.bound import Competitor, bound_s
from hotseat.simulation.trace import jobs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.catalog.catalog import Policy
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.simulation.results import Request, Run, Stay
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


def worst_share_of_bound(trace: Trace, run: Run, policy: Policy) -> float:
    """The longest wait from claim to ready, as a share of its bound; above 1 the bound is violated."""
    return max((claim.waited_s / bound_of(trace, claim.model, policy) for claim in claims(run)), default=0.0)


def bound_of(trace: Trace, wanted: str, policy: Policy) -> Seconds:
    drains: dict[str, Seconds] = {}
    for job in (job for client in trace.clients for job in jobs_of(client)):
        drains[job.model] = max(job.service, drains.get(job.model, 0.0))
    competitors = {
        model.name: Competitor(model.load, model.stop, drains[model.name], model.urgency)
        for model in trace.models
        if model.name in drains
    }
    return bound_s(competitors.pop(wanted), [*competitors.values()], policy)


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
