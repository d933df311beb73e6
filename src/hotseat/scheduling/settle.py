"""After an event: grant, stop, start and evict what is due. Passes repeat until nothing changes.

The order of the passes is the policy: loaded models are served first, then memory is freed for the oldest claim first
(plan.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import LoadFailed
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.eviction import price_in_words
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import may_move_to_bed
from hotseat.scheduling.memory_pressure import make_way, relieve
from hotseat.scheduling.plan import Prospect, Step, prospects
from hotseat.scheduling.queue import Wish
from hotseat.scheduling.turns import NEVER, slots
from hotseat.scheduling.wait_reasons import waited_for

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Moves


def settle(moves: Moves) -> Instant:
    """Run passes until nothing changes; return when to check again without an event."""
    while True:
        before = len(moves.commands)
        wake = _pass(moves)
        if len(moves.commands) == before:
            return wake


def _pass(moves: Moves) -> Instant:
    wake = min(_end_rests(moves), _cut_late_leases(moves))
    make_way(moves)
    _serve_residents(moves)
    wake = min(wake, relieve(moves))
    _stop_drained(moves)
    wake = min(wake, _make_room(moves), _retire_idle(moves))
    _stop_drained(moves)
    _stop_reading(moves)
    return wake


# Failures


def _end_rests(moves: Moves) -> Instant:
    wake = NEVER
    for model in moves.state.in_phase(Phase.RESTING):
        if model.rest_until <= moves.now:
            moves.recover(model)
        else:
            wake = min(wake, model.rest_until)
            moves.refuse_all(model.name, rests(model, moves.now), "backing off after a failure")
    return wake


def rests(model: ModelState, now: Instant) -> LoadFailed:
    """Uses `why`, not `last_error`: server output may contain other clients' prompts."""
    left: Seconds = model.rest_until - now
    times = "once" if model.failures == 1 else f"{model.failures} times in a row"
    text = (
        f"{model.name} is not ready: it failed {times} and is backing off, next try in {left:.0f} s"
        f" (`hotseat load {model.name}` tries now). Last failure: {model.why}"
    )
    return LoadFailed(text, retry_after=left)


# Residents


def _serve_residents(moves: Moves) -> None:
    state = moves.state
    for model in state.in_phase(Phase.READY):
        waiting = state.line.count(model.name)
        limit = slots(state, model) if waiting else 0
        for _ in range(waiting):
            ticket = state.line.next(model.name, slot_free=model.slots_used < limit)
            if ticket is None:
                break
            moves.grant(model, ticket, waited_for(model, ticket))


def _cut_late_leases(moves: Moves) -> Instant:
    wake = NEVER
    for model in moves.state.in_phase(Phase.DRAINING):
        if model.cut_at is None:
            continue
        if model.cut_at <= moves.now:
            moves.cut(model, f"{model.name} is being stopped and its drain timeout has expired")
        else:
            wake = min(wake, model.cut_at)
    return wake


def _stop_drained(moves: Moves) -> None:
    for model in moves.state.in_phase(Phase.DRAINING):
        if model.leases:
            continue
        if model.bed and may_move_to_bed(moves.state, model):
            moves.suspend(model)
        else:
            moves.stop(model)


def _retire_idle(moves: Moves) -> Instant:
    """Unload idle and sleeping models whose ttl is over. Idle ones only, so it cannot race with a granted request."""
    wake = NEVER
    for model in [*moves.state.in_phase(Phase.READY), *moves.state.in_phase(Phase.ASLEEP)]:
        expires = model.expires_at()
        if expires is None or moves.state.line.count(model.name) or model.spec.pinned:
            continue
        if expires <= moves.now:
            moves.dismiss(model, Cause.TTL, ttl_in_words(model))
        else:
            wake = min(wake, expires)
    return wake


def ttl_in_words(model: ModelState) -> str:
    if model.phase is Phase.ASLEEP and model.spec.sleep:
        return f"asleep for its sleep.ttl of {model.spec.sleep.ttl_s:g} s"
    return f"idle for its ttl of {model.spec.ttl_s:g} s"


# Claims


def _make_room(moves: Moves) -> Instant:
    """Start what fits; for the rest evict what may leave. Oldest claim first."""
    wake = NEVER
    for prospect in [*prospects(moves.state, moves.now)]:
        _carry_out(moves, prospect)
        wake = min(wake, prospect.look_again)
    return wake


def _carry_out(moves: Moves, prospect: Prospect) -> None:
    model = prospect.model
    match prospect.step:
        case Step.REFUSE if prospect.error:
            moves.refuse_all(model.name, prospect.error, "not enough memory")
        case Step.START if model.phase is Phase.ASLEEP:
            moves.wake(model, reason_to_start(moves.state, model.name))
        case Step.START:
            moves.start(model, reason_to_start(moves.state, model.name))
        case Step.EVICT:
            for victim in prospect.others:
                because = price_in_words(moves.state, victim, moves.now)
                moves.evict(victim, model, because, prospect.beds.get(victim.name))
            moves.read_ahead(model, prospect.spec, "other models are being unloaded for it")
        case Step.LEAVING:
            moves.read_ahead(model, prospect.spec, "memory is being freed for it")


def _stop_reading(moves: Moves) -> None:
    """Read only for claims, and only what the current catalog says."""
    state = moves.state
    for name, recipe in [*state.read_ahead.items()]:
        if state.claims.of(name) is None:
            moves.stop_reading(name, "no request is waiting for it any more")
        elif state.catalog.models[name].recipe != recipe:
            moves.stop_reading(name, "its configuration changed")


def reason_to_start(state: State, name: ModelName) -> str:
    waiting = state.line.count(name)
    if waiting and state.line.first(name).wish is Wish.LOAD:
        return "loaded explicitly (operator or preload)"
    return f"started for {waiting} {'request' if waiting == 1 else 'requests'}"
