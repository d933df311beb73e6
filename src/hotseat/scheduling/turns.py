"""Turns: how long a loaded model is protected although claims wait for its memory, and why.

A model in use keeps its turn until the claim has waited `patience` times the cost of swapping there and back. The turn
is stretched, at most to twice its length, if requests are long compared with loads or if more clients use the model
than wait. The rest of these two turns goes to its own requests that are older than the claim. An unused model leaves at
once, unless past gaps say that its next request is about to arrive.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.linger import Pressure, linger_s
from hotseat.scheduling.memory_fit import fits_beside, is_in_the_way
from hotseat.scheduling.queue import RequestKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.claims import Claim
    from hotseat.scheduling.state import ModelState, State

NEVER: Instant = float("inf")
BUSY_SLOTS = 8
"""Concurrent requests to a server of unknown capacity while claims wait for its memory: a drain must end."""
LONGEST_STRETCH = 2.0
LOOKED_AT = 16
"""Only this many claims, the oldest, are examined: a decision must not take longer than a request."""


class ProtectedBy(Enum):
    """What protects a model from eviction."""

    PINNED = "pinned"
    LOADING = "loading"
    TURN = "turn"
    OLDER_REQUESTS = "older requests"
    LINGER = "linger"


class Protection(NamedTuple):
    """Why a model is not evicted for a claim now, and until when."""

    resident: ModelState
    until: Instant
    keeps: ProtectedBy


class DecisionContext:
    """The claims as one decision sees them: figures that every comparison needs are computed once."""

    __slots__ = ("_pressure", "_ring", "now", "state")

    def __init__(self, state: State, now: Instant) -> None:
        self.state = state
        self.now = now
        self._pressure: Pressure | None = None
        self._ring: list[ModelName] | None = None

    @property
    def pressure(self) -> Pressure:
        if self._pressure is None:
            state, claims = self.state, self.state.claims.first(LOOKED_AT)
            waiting = sum(state.queue.count(claim.model) for claim in claims)
            self._pressure = Pressure(waiting, sum(state.load_s(claim.model) for claim in claims))
        return self._pressure

    @property
    def ring(self) -> list[ModelName]:
        if self._ring is None:
            self._ring = [claim.model for claim in self.state.claims.first(LOOKED_AT)]
        return self._ring


def protection_of(context: DecisionContext, claim: Claim, resident: ModelState) -> Protection | None:
    """What protects `resident` from eviction for this claim now; None: nothing."""
    if resident.phase is Phase.ASLEEP:
        return None
    if is_protected(context.state, claim.model, resident):
        return Protection(resident, NEVER, ProtectedBy.PINNED)
    if resident.phase is Phase.LOADING:
        return _protection_of_load(context, resident)
    if context.state.is_idle(resident):
        return _protection_of_idle(context, claim, resident)
    return _protection_of_busy(context, claim, resident)


def _protection_of_load(context: DecisionContext, resident: ModelState) -> Protection | None:
    """A load that no request waits for is abandoned, unless it is nearly done."""
    state, name = context.state, resident.name
    left_s = resident.since + state.load_s(name) - context.now
    nearly_done = 0.0 <= left_s <= state.model_stats.stop_s(name)
    if state.queue.count(name) or nearly_done:
        return Protection(resident, NEVER, ProtectedBy.LOADING)
    return None


def _protection_of_idle(context: DecisionContext, claim: Claim, resident: ModelState) -> Protection | None:
    limit_s = begin(claim, resident) + turn_s(context, claim.model, resident) - context.now
    if limit_s <= 0.0:
        return None
    unused_s = context.now - resident.idle_since
    load_s = context.state.load_s(resident.name)
    stay_s = linger_s(resident.stats, load_s, unused_s, context.pressure, limit_s)
    return Protection(resident, context.now + stay_s, ProtectedBy.LINGER) if stay_s > 0.0 else None


def _protection_of_busy(context: DecisionContext, claim: Claim, resident: ModelState) -> Protection | None:
    turn = turn_s(context, claim.model, resident)
    start = begin(claim, resident)
    if context.now < start + turn:
        return Protection(resident, start + turn, ProtectedBy.TURN)
    last = min(start + LONGEST_STRETCH * turn, _latest(context, claim, resident))
    if context.now >= last or _is_more_urgent(context.state, claim.model, resident):
        return None
    stretched = min(last, start + stretch(context.state, claim.model, resident) * turn)
    if context.now < stretched:
        return Protection(resident, stretched, ProtectedBy.TURN)
    if _has_older_requests(context.state, claim, resident):
        return Protection(resident, last, ProtectedBy.OLDER_REQUESTS)
    return None


def begin(claim: Claim, resident: ModelState) -> Instant:
    """When the turn starts. A model that overtook an older claim gets no head start against it."""
    return claim.since if claim.since < resident.claimed_at else max(claim.since, resident.ready_at)


def turn_s(context: DecisionContext, wanted: ModelName, resident: ModelState) -> Seconds:
    state = context.state
    swap_there_and_back = state.load_s(wanted) + state.load_s(resident.name)
    weight = resident.spec.urgency / state.catalog.models[wanted].urgency
    return _patience(context, resident) * swap_there_and_back * weight


def stretch(state: State, wanted: ModelName, resident: ModelState) -> float:
    """How far a longer turn pays: if draining is slow compared with loading, or more clients use it than wait."""
    loads_s = state.load_s(wanted) + state.load_s(resident.name)
    drains_s = 2 * (resident.stats.service_s + state.models[wanted].stats.service_s)
    using = {lease.client for lease in resident.leases.values()}
    using_more = max(len(using), state.queue.clients(resident.name)) / max(1, state.queue.clients(wanted))
    return max(1.0, min(LONGEST_STRETCH, max(using_more, 1.0 + drains_s / max(loads_s, 1e-3))))


def _patience(context: DecisionContext, resident: ModelState) -> float:
    """As configured, or less, so that a full rotation of all competing models keeps `maxWait`."""
    policy = context.state.catalog.policy
    if policy.max_wait_s is None:
        return policy.patience
    state = context.state
    ring = {*context.ring, resident.name}
    loads = [state.load_s(name) for name in ring]
    fixed_s = sum(loads) + sum(state.model_stats.of(name).drain_s + state.stop_s(name) for name in ring)
    turns_s = 2.0 * (sum(loads) - min(loads))
    return max(0.0, min(policy.patience, (policy.max_wait_s - fixed_s) / max(turns_s, 1e-3)))


def _latest(context: DecisionContext, claim: Claim, resident: ModelState) -> Instant:
    """When `resident` must start to leave so that the claim is ready within `maxWait`."""
    max_wait_s = context.state.catalog.policy.max_wait_s
    if max_wait_s is None:
        return NEVER
    return claim.since + max_wait_s - context.state.load_s(claim.model) - resident.stats.drain_s


def _is_more_urgent(state: State, wanted: ModelName, resident: ModelState) -> bool:
    return state.catalog.models[wanted].urgency > resident.spec.urgency


def _has_older_requests(state: State, claim: Claim, resident: ModelState) -> bool:
    return bool(state.queue.count(resident.name)) and state.queue.oldest(resident.name) <= claim.since


def is_protected(state: State, wanted: ModelName, resident: ModelState) -> bool:
    """Pinned models stay, and so do members of a persistent group, except against their own group."""
    if resident.spec.pinned:
        return True
    group = state.catalog.groups.of(resident.name)
    return group.persistent and group is not state.catalog.groups.of(wanted)


# Slots


def serves_at_once(state: State, model: ModelState, kind: RequestKind) -> bool:
    return model.phase is Phase.READY and (kind is not RequestKind.USE or model.slots_used < slots(state, model))


def slots(state: State, resident: ModelState) -> float:
    """How many requests may be forwarded to it at a time now."""
    known = resident.slots
    if known is not None:
        return known
    return BUSY_SLOTS if is_contested(state, resident) else float("inf")


def is_contested(state: State, resident: ModelState) -> bool:
    """Is there a claim that `resident` may have to leave for?"""
    return any(is_in_the_way(state, resident, state.models[claim.model]) for claim in state.claims.first(LOOKED_AT))


# Settings that cannot be met


def unkept_max_wait(state: State) -> Iterator[str]:
    """Warn if `maxWait` is shorter than loading, one after the other, the models that compete for memory."""
    max_wait_s = state.catalog.policy.max_wait_s
    known = [(model.stats.load_s, model) for model in state.models.values() if model.stats.load_s is not None]
    rivals: list[ModelState] = []
    total_s = 0.0
    for load_s, model in sorted(known, key=lambda each: -each[0]):
        if max_wait_s is None or total_s > max_wait_s:
            break
        if all(_are_rivals(state, model, other) for other in rivals):
            rivals.append(model)
            total_s += load_s
    if max_wait_s is not None and total_s > max_wait_s:
        names = ", ".join(model.name for model in rivals)
        yield (
            f"maxWait {max_wait_s:g}s cannot be met while these {len(rivals)} models are in use"
            f" (loading all of them takes {total_s:.0f}s): {names}"
        )


def _are_rivals(state: State, one: ModelState, other: ModelState) -> bool:
    """Can they not be loaded together?"""
    return not fits_beside(state, one, other) or not fits_beside(state, other, one)
