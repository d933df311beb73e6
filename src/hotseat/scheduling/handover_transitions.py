"""The transitions of a handover: no step begins while it lasts, and the next process adopts the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import must_restart
from hotseat.scheduling.catalog_change import replace_process
from hotseat.scheduling.commands import Cause, StopUpstream
from hotseat.scheduling.lifecycle import Move, Phase
from hotseat.scheduling.memory_pressure import count_measured
from hotseat.scheduling.queue import RequestKind, Ticket
from hotseat.scheduling.state import LONG_AGO

if TYPE_CHECKING:
    from hotseat.scheduling.events import HandoverReceived, ServerAdopted
    from hotseat.scheduling.handover import Failure
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.transitions import Transitions

ADOPTED = "adopted from the previous process"
SHUTTING_DOWN = "hotseat is shutting down"


def request(transitions: Transitions) -> None:
    """A shutdown is not interrupted."""
    transitions.state.is_handing_over = not transitions.state.is_closing


def receive(transitions: Transitions, event: HandoverReceived) -> None:
    """Nothing begins until all servers and tickets are known."""
    state = transitions.state
    request(transitions)
    state.note_launch(event.last_launch)
    for failure in event.failures:
        if model := state.models.get(failure.model):
            _note_failure(transitions, model, failure)
    for eviction in event.evictions:
        if model := state.models.get(eviction.model):
            model.evicted_at = transitions.now - eviction.ago_s
    for name in event.saved:
        if model := state.models.get(name):
            model.conversations.has_saved = True


def _note_failure(transitions: Transitions, model: ModelState, failure: Failure) -> None:
    model.failures, model.last_error, model.may_pass = failure.failures, failure.last_error, failure.may_pass
    model.failed_levels.update(failure.sleep_levels)
    model.conversations.useless_restores = failure.useless_restores
    model.conversations.keeps_none_because = failure.keeps_none_because
    if failure.retry_in_s:
        model.retry_at = transitions.now + failure.retry_in_s
        transitions.enter(model, Move.CONTINUE_BACKOFF, failure.why)
    elif failure.failures:
        model.why = failure.why
        transitions.state.failed[model.name] = model


def end(transitions: Transitions) -> None:
    """What was held back is decided now."""
    state = transitions.state
    state.is_handing_over = False
    for model in state.with_process():
        _follow_catalog(transitions, model)


# Servers


def adopt(transitions: Transitions, event: ServerAdopted) -> None:
    state = transitions.state
    model = state.models.get(event.model) or state.add(event.spec, None)
    if model.phase.takes_memory:
        return _stop_second(transitions, model, event)
    if model.phase is Phase.BACKOFF:
        transitions.recover(model)
    is_asleep = event.sleep_level is not None and event.departure is None
    transitions.enter(model, Move.ADOPT_ASLEEP if is_asleep else Move.ADOPT, ADOPTED)
    _take_process(transitions, model, event)
    _take_spec(state, model, event)
    _take_leases(transitions, model, event)
    _depart(transitions, model, event)
    if event.measured is not None:
        model.measured = event.measured
        if not is_asleep:
            count_measured(state, model, event.measured)
    state.may_exceed_memory = state.has_other_rules = True
    if not state.is_handing_over:
        _follow_catalog(transitions, model)
    return None


def _stop_second(transitions: Transitions, model: ModelState, event: ServerAdopted) -> None:
    """It cannot happen, unless an event is repeated: a server that the state does not contain must not keep memory."""
    if model.launch != event.launch:
        reason = f"{model.name} has another server already"
        transitions.commands.append(StopUpstream(model.name, event.launch, Cause.SHUTDOWN, reason))


def _take_spec(state: State, model: ModelState, event: ServerAdopted) -> None:
    """As a reload would. A process with another recipe counts as it did; its figure belongs to that recipe."""
    model.spec, spec = event.spec, state.catalog.models.get(model.name)
    if spec is None or must_restart(event.spec, spec):
        model.next_memory, model.stats.memory = model.stats.memory, None
    else:
        model.change_spec(spec)


def _take_process(transitions: Transitions, model: ModelState, event: ServerAdopted) -> None:
    now = transitions.now
    transitions.state.note_launch(event.launch)
    transitions.state.model_stats.used(model.name, model.stats)
    model.is_adopted = True
    model.launch, model.upstream, model.gpus, model.given = event.launch, event.upstream, event.gpus, event.given
    model.sleep_level, model.fell_asleep_in_s = event.sleep_level, event.fell_asleep_in_s
    model.since, model.ready_at, model.idle_since = now - event.phase_s, now - event.ready_s, now - event.idle_s
    model.claimed_at = LONG_AGO if event.claimed_s is None else now - event.claimed_s
    model.served, model.has_answered = event.served, event.has_answered
    model.keep_alive, model.slots_reported = event.keep_alive, event.slots_reported
    model.conversations.has_unreported = True


def _take_leases(transitions: Transitions, model: ModelState, event: ServerAdopted) -> None:
    for lease in event.leases:
        kind = RequestKind.USE if lease.takes_slot else RequestKind.READ
        since = transitions.now - lease.held_s
        model.leases[lease.ticket] = Ticket(lease.ticket, model.name, lease.client, since, kind)
        model.slots_used += lease.takes_slot
        transitions.state.leases[lease.ticket] = model


def _depart(transitions: Transitions, model: ModelState, event: ServerAdopted) -> None:
    if departure := event.departure:
        model.sleep_level = None
        transitions.unload(model, departure.cause, departure.reason)
        model.since, model.sleep_level = transitions.now - event.phase_s, event.sleep_level
        model.cut_at = None if departure.cut_in_s is None else transitions.now + departure.cut_in_s
    if transitions.state.is_closing:
        transitions.unload(model, Cause.SHUTDOWN, SHUTTING_DOWN)


def _follow_catalog(transitions: Transitions, model: ModelState) -> None:
    """As after a reload: what changed drains and stops. So does a server that sleeps as nobody can wake it."""
    spec = transitions.state.catalog.models.get(model.name)
    if spec is None or must_restart(model.spec, spec) or _cannot_be_woken(model):
        replace_process(transitions, model)


def _cannot_be_woken(model: ModelState) -> bool:
    return model.is_adopted and model.sleep_level is not None and not model.sleep_level.resume
