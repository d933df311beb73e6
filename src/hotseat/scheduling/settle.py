"""After an event: grant, stop, start and evict what is due. Passes repeat until nothing changes.

The order of the passes is the policy: loaded models are served first, then memory is freed for the oldest claim first
(plan.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import LoadFailed
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.conversations import save, saving
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.loss import NEVER, loss_in_words
from hotseat.scheduling.memory_fit import footprint, may_change_level, why_alone
from hotseat.scheduling.memory_pressure import refuse_for_yield, relieve, unload_for_yield
from hotseat.scheduling.plan import Action, ClaimDecision, decisions
from hotseat.scheduling.queue import RequestKind
from hotseat.scheduling.slots import slots
from hotseat.scheduling.wait_reasons import waited_for

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions

UNWANTED = "a client wanted it unloaded as soon as it is idle (keep_alive)"


def settle(transitions: Transitions) -> Instant:
    """Run passes until nothing changes; return when to check again without an event."""
    while True:
        before = len(transitions.commands)
        wake = _pass(transitions)
        if len(transitions.commands) == before:
            return wake


def _pass(transitions: Transitions) -> Instant:
    transitions.state.card_choices.clear()
    wake = min(_end_backoffs(transitions), _cut_late_leases(transitions))
    refuse_for_yield(transitions)
    if transitions.state.is_handing_over:
        _serve_and_refuse(transitions)
        return wake
    unload_for_yield(transitions)
    _serve_residents(transitions)
    wake = min(wake, relieve(transitions))
    _stop_drained(transitions)
    wake = min(wake, _free_memory(transitions), _retire_idle(transitions))
    _stop_drained(transitions)
    _stop_reading(transitions)
    return wake


def _serve_and_refuse(transitions: Transitions) -> None:
    """During a handover: what needs no process to start, stop, sleep or wake."""
    _serve_residents(transitions)
    for decision in [*decisions(transitions.state, transitions.now)]:
        if decision.action is Action.REFUSE:
            _carry_out(transitions, decision)
    _stop_reading(transitions)


# Failures


def _end_backoffs(transitions: Transitions) -> Instant:
    wake = NEVER
    for model in transitions.state.in_phase(Phase.BACKOFF):
        if model.retry_at <= transitions.now:
            transitions.recover(model)
        else:
            wake = min(wake, model.retry_at)
            transitions.refuse_all(model.name, backing_off(model, transitions.now), "backing off after a failure")
    return wake


def backing_off(model: ModelState, now: Instant) -> LoadFailed:
    """Uses `why`, not `last_error`: server output may contain other clients' prompts."""
    left: Seconds = model.retry_at - now
    times = "once" if model.failures == 1 else f"{model.failures} times in a row"
    text = (
        f"{model.name} is not ready: it failed {times} and is backing off, next try in {left:.0f} s"
        f" (`hotseat load {model.name}` tries now). Last failure: {model.why}"
    )
    return LoadFailed(text, retry_after=left if model.may_pass else None)


# Residents


def _serve_residents(transitions: Transitions) -> None:
    state = transitions.state
    for model in state.in_phase(Phase.READY):
        waiting = state.queue.count(model.name)
        limit = slots(state, model) if waiting else 0
        for _ in range(waiting):
            ticket = state.queue.next(model.name, slot_free=model.slots_used < limit)
            if ticket is None:
                break
            transitions.grant(model, ticket, waited_for(model, ticket))


def _cut_late_leases(transitions: Transitions) -> Instant:
    wake = NEVER
    for model in transitions.state.in_phase(Phase.DRAINING):
        if model.cut_at is None:
            continue
        if model.cut_at <= transitions.now:
            transitions.cut(model, f"{model.name} is being stopped and its drain timeout has expired")
        else:
            wake = min(wake, model.cut_at)
    return wake


def _stop_drained(transitions: Transitions) -> None:
    for model in transitions.state.in_phase(Phase.DRAINING):
        if model.leases:
            continue
        if model.sleep_level and may_change_level(transitions.state, model):
            transitions.suspend(model)
        elif allowance := saving(transitions.state, model):
            save(transitions, model, allowance)
        else:
            transitions.stop(model)


def _retire_idle(transitions: Transitions) -> Instant:
    """Unload idle and sleeping models whose ttl is over. Idle ones only, so it cannot race with a granted request."""
    wake = NEVER
    for model in [*transitions.state.in_phase(Phase.READY), *transitions.state.in_phase(Phase.ASLEEP)]:
        expires = model.expires_at()
        if expires is None or transitions.state.queue.count(model.name) or model.spec.pinned:
            continue
        if expires <= transitions.now:
            transitions.unload(model, Cause.TTL, ttl_in_words(model))
        else:
            wake = min(wake, expires)
    return wake


def ttl_in_words(model: ModelState) -> str:
    if model.is_unwanted:
        return UNWANTED
    if model.phase is Phase.ASLEEP and model.spec.sleep:
        return f"asleep for its sleep.ttl of {model.spec.sleep.ttl_s:g} s"
    if model.keep_alive is None:
        return f"idle for its ttl of {model.ttl_s:g} s"
    return f"idle, and a client wanted to keep it for {model.ttl_s:g} s (keep_alive)"


# Claims


def _free_memory(transitions: Transitions) -> Instant:
    """Start what fits; for the rest evict what may leave. Oldest claim first."""
    wake = NEVER
    for decision in [*decisions(transitions.state, transitions.now)]:
        _carry_out(transitions, decision)
        wake = min(wake, decision.look_again)
    return wake


def _carry_out(transitions: Transitions, decision: ClaimDecision) -> None:
    model = decision.model
    match decision.action:
        case Action.REFUSE if decision.error:
            transitions.refuse_all(model.name, decision.error, "it does not fit beside what stays")
        case Action.RESTART:
            transitions.unload(model, Cause.EVICTION, "the GPUs on which it sleeps are taken, and it fits on others")
        case Action.START:
            model.given = decision.given or model.given
            reason = reason_to_start(transitions.state, model)
            if model.phase is Phase.ASLEEP:
                transitions.wake(model, reason)
            else:
                transitions.start(model, decision.gpus, reason)
        case Action.EVICT:
            for victim in decision.others:
                loss = loss_in_words(transitions.state, victim, transitions.now)
                rule = reason_to_leave(transitions.state, victim, decision)
                transitions.evict(victim, model, loss, rule, decision.sleep_levels.get(victim.name))
            transitions.read_ahead(model, "other models are being unloaded for it")
        case Action.LEAVING:
            transitions.read_ahead(model, "another model is leaving for it")


def _stop_reading(transitions: Transitions) -> None:
    """Read only for claims, and only what the current catalog says."""
    state = transitions.state
    for name, recipe in [*state.read_ahead.items()]:
        if state.claims.of(name) is None:
            transitions.stop_reading(name, "no request is waiting for it any more")
        elif state.catalog.models[name].recipe != recipe:
            transitions.stop_reading(name, "its configuration changed")


def reason_to_leave(state: State, victim: ModelState, decision: ClaimDecision) -> str:
    """A sentence with the rule that decided."""
    wanted = decision.model
    if victim.name in decision.excluded:
        return f"unloaded for {wanted.name}: {state.catalog.groups.rule_between(victim.name, wanted.name)}"
    unknown = next((each.name for each in (wanted, victim) if footprint(each) is None), None)
    all_of_it = f": the memory of {unknown} is not known, so it takes all of its device" if unknown else ""
    return f"unloaded to free memory for {wanted.name}{all_of_it}"


def reason_to_start(state: State, model: ModelState) -> str:
    waiting, alone = state.queue.count(model.name), f", {why_alone(model)}" if model.given else ""
    if waiting and state.queue.first(model.name).kind is RequestKind.LOAD:
        return f"loaded explicitly (operator or preload){alone}"
    return f"started for {waiting} {'request' if waiting == 1 else 'requests'}{alone}"
