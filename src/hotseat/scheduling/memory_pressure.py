"""What is measured, and models that leave without a competing claim.

Others use the device, a model grew, memory must be yielded, or a reload has changed budgets or who may run beside whom.
Requests in flight are never cut for this. Unused models leave at once, models in use when their requests end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.spec import NOTHING
from hotseat.errors import Yielding
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.eviction import cheapest, offer
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.loss import NEVER, expected_loss
from hotseat.scheduling.memory_fit import OTHERS_S, footprint, free_later, holds, in_gib, most_of, needs
from hotseat.scheduling.placement import card_choices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, Instant, ModelName, Place, Seconds
    from hotseat.scheduling.events import DevicesChanged, MemoryMeasured
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions

LOOK_AGAIN_S: Seconds = 1.0
"""Retry interval while models in use exceed the limit: most requests end without a check."""


def relieve(transitions: Transitions) -> Instant:
    """Unload unused models, the cheapest first, while memory use exceeds the limit; return when to check again."""
    state = transitions.state
    if state.has_other_rules:
        _keep_apart(transitions)
    if not state.may_exceed_memory:
        return NEVER
    excess = free_later(state).exceeded()
    if not excess:
        state.may_exceed_memory = False
        return NEVER
    for model in _who_goes(state, excess, transitions.now):
        transitions.unload(model, Cause.EXCEEDS_MEMORY, _in_words(excess, state))
    return transitions.now + LOOK_AGAIN_S


def _keep_apart(transitions: Transitions) -> None:
    """After a reload: of models that may no longer run together the least valuable ones drain; pinned ones stay."""
    state = transitions.state
    state.has_other_rules = False

    def value(model: ModelState) -> tuple[bool, bool, int, float]:
        requests = len(model.leases) + state.queue.count(model.name)
        lost = expected_loss(state, model, state.load_s(model.name), transitions.now)
        return model.spec.pinned, state.catalog.groups.of(model.name).persistent, requests, lost

    kept: list[ModelName] = []
    running = [model for model in state.with_process() if not (model.is_leaving or model.is_asleep)]
    for model in sorted(running, key=value, reverse=True):
        other = state.catalog.groups.never_beside(model.name, kept)
        if other is None or model.spec.pinned:
            kept.append(model.name)
        else:
            reason = f"the configuration changed: it may not run together with {other} any more"
            transitions.unload(model, Cause.CONFIGURATION, reason)


def _who_goes(state: State, excess: Mapping[Place, Bytes], now: Instant) -> list[ModelState]:
    """The set with the smallest loss that is enough; if all are not enough, all of them."""
    may_go = [model for model in state.with_process() if _may_go(state, model, excess)]
    losses = [(model, expected_loss(state, model, state.load_s(model.name), now)) for model in may_go]
    chosen = cheapest((offer(model, lost, holds(state, model), excess) for model, lost in losses), excess)
    return may_go if chosen is None else [each.model for each in chosen]


def _may_go(state: State, model: ModelState, excess: Mapping[Place, Bytes]) -> bool:
    """Unused, not pinned, and unloading it helps."""
    if model.phase is Phase.ASLEEP:
        return not excess.keys().isdisjoint(holds(state, model))
    if model.phase is not Phase.READY or not state.is_idle(model) or model.spec.pinned:
        return False
    if state.catalog.groups.of(model.name).persistent:
        return False
    return not excess.keys().isdisjoint(needs(state, model))


def _in_words(excess: Mapping[Place, Bytes], state: State) -> str:
    place, over = max(excess.items(), key=lambda each: each[1])
    return f"models use {in_gib(over)} more of {place} than the {in_gib(state.limits.get(place, 0))} available"


# Measurements


def note_measured(state: State, event: MemoryMeasured) -> None:
    if not (model := state.of_launch(event)):
        return
    model.measured = event.memory
    if model.phase is Phase.ASLEEP:
        _count_asleep(state, model, event.memory)
    else:
        count_measured(state, model, event.memory)


def count_measured(state: State, model: ModelState, memory: Mapping[Place, Bytes]) -> None:
    """Declared memory wins. A server without requests so far may not have touched all memory it needs."""
    if model.spec.memory is not None:
        return
    known = footprint(model)
    before = known.memory if known else NOTHING
    measured = memory if model.served else most_of(before, memory)
    if not model.served and measured == before:
        return
    model.stats.memory = {**(model.stats.memory or NOTHING), **measured}
    state.may_exceed_memory = True


def _count_asleep(state: State, model: ModelState, memory: Mapping[Place, Bytes]) -> None:
    """Memory kept asleep is a separate figure."""
    assert model.sleep_level is not None
    model.stats.sleep_stats(model.sleep_level.name).memory = {place.device: size for place, size in memory.items()}
    state.may_exceed_memory = True


def note_devices(state: State, event: DevicesChanged) -> None:
    state.available = event.available
    state.reckon_limits()
    state.may_exceed_memory = True


# Yield


def refuse_for_yield(transitions: Transitions) -> None:
    """Refuse the requests that wait for models on the requested devices."""
    state, yielding = transitions.state, transitions.state.yielding
    if yielding is None:
        return
    error = Yielding(f"no model can be loaded right now: {yielding.reason}. Try again later.", retry_after=OTHERS_S)
    for name in state.queue.models():
        if needs_yielded_memory(state, state.models[name]):
            transitions.refuse_all(name, error, yielding.reason)


def unload_for_yield(transitions: Transitions) -> None:
    """Unload the models on the requested devices."""
    state, yielding = transitions.state, transitions.state.yielding
    for model in state.with_process() if yielding else ():
        if yielding and holds_yielded_memory(state, model):
            transitions.unload(model, Cause.YIELD, yielding.reason)


def holds_yielded_memory(state: State, model: ModelState) -> bool:
    """Is it present and not about to be gone? A model going to sleep may keep memory."""
    if model.is_leaving and not model.falls_asleep:
        return False
    return _covers(state, holds(state, model))


def needs_yielded_memory(state: State, model: ModelState) -> bool:
    """On every set of cards that it may get."""
    return all(_covers(state, needed) for needed in card_choices(state, model).values())


def _covers(state: State, memory: Mapping[Place, Bytes]) -> bool:
    """Without budgets a model's devices are unknown, so it counts."""
    yielding = state.yielding
    if yielding is None:
        return False
    return not yielding.places or not state.catalog.budgets or not yielding.places.isdisjoint(memory)
