"""Turns: how long a model in use is protected from those who wait, and from when on.

A resident model in use keeps its turn until those waiting have waited `patience` times what the swap there and back
costs; a resident model not in use leaves at once. So two clients on two models do not thrash, and nobody starves:
claims rotate, and between a claim and its load every other contender has at most one turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.line import Wish
from hotseat.scheduling.room import is_in_the_way

if TYPE_CHECKING:
    from hotseat.scheduling.state import ModelState, State
    from hotseat.terms import Instant, ModelName, Seconds

CROWDED_SLOTS = 8
"""What is forwarded at once to a server of unknown capacity while others wait for its place: a drain must end."""


def turn_s(state: State, wanted: ModelName, resident: ModelState) -> Seconds:
    swap_there_and_back = state.load_s(wanted) + state.load_s(resident.name)
    weight = resident.spec.urgency / state.catalog.models[wanted].urgency
    return state.catalog.policy.patience * swap_there_and_back * weight


def due(state: State, wanted: ModelName, resident: ModelState) -> Instant:
    """When may `wanted` push `resident` out although it is in use?"""
    claim = state.claim(wanted)
    overtook = claim < resident.claimed_at
    begin = claim if overtook else max(claim, resident.ready_at)
    return begin + turn_s(state, wanted, resident)


def may_leave_at(state: State, wanted: ModelName, resident: ModelState, now: Instant) -> Instant | None:
    """From when on `resident` may be evicted for `wanted`; None: not by it, or not until something else happens."""
    if is_protected(state, wanted, resident):
        return None
    if resident.phase is Phase.LOADING:
        return None if state.line.count(resident.name) else now
    if state.is_idle(resident):
        return now
    return due(state, wanted, resident)


def is_protected(state: State, wanted: ModelName, resident: ModelState) -> bool:
    """Pinned models stay; so do members of a persistent group, except for their own group."""
    group = state.catalog.groups.of(resident.name)
    from_outside = group is not state.catalog.groups.of(wanted)
    return resident.spec.pinned or (group.persistent and from_outside)


def serves_at_once(state: State, model: ModelState, wish: Wish) -> bool:
    return model.phase is Phase.READY and (wish is not Wish.USE or model.slots_used < slots(state, model))


def slots(state: State, resident: ModelState) -> float:
    """How many requests may be forwarded to it at a time, as things are now."""
    limit = resident.spec.concurrency_limit
    if limit is not None:
        return limit
    return CROWDED_SLOTS if is_contested(state, resident) else float("inf")


def is_contested(state: State, resident: ModelState) -> bool:
    """Does somebody wait for a place that `resident` may have to leave?"""
    return any(
        is_in_the_way(resident.spec, state.catalog.models[name], state.catalog)
        for name in state.line.models()
        if state.models[name].phase not in (Phase.READY, Phase.LOADING)
    )
