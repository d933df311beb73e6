"""How many requests a loaded model serves at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import is_in_the_way
from hotseat.scheduling.queue import LOOKED_AT, RequestKind

if TYPE_CHECKING:
    from hotseat.scheduling.state import ModelState, State

BUSY_SLOTS = 8
"""Concurrent requests to a server of unknown capacity while claims wait for its memory: a drain must end."""


def serves_at_once(state: State, model: ModelState, kind: RequestKind) -> bool:
    return model.phase is Phase.READY and (kind is not RequestKind.USE or model.slots_used < slots(state, model))


def slots(state: State, resident: ModelState) -> float:
    """How many requests may be forwarded to it at a time now."""
    known = resident.slots
    if known is not None:
        return known
    return BUSY_SLOTS if _is_contested(state, resident) else float("inf")


def _is_contested(state: State, resident: ModelState) -> bool:
    """Is there a claim that `resident` may have to leave for?"""
    return any(is_in_the_way(state, resident, state.models[claim.model]) for claim in state.claims.first(LOOKED_AT))
