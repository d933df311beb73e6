"""Both sides of a handover: what a scheduler hands over, and how the next one takes it over.

No step begins while it lasts. The next scheduler adopts the servers, and is told of them by events before any request
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import must_restart
from hotseat.catalog.sleeping import SleepLevel
from hotseat.scheduling.catalog_change import replace_process
from hotseat.scheduling.commands import Cause, StopUpstream
from hotseat.scheduling.events import (
    DevicesChanged,
    HandoverCompleted,
    HandoverReceived,
    KeepAliveChanged,
    LoadRequested,
    RequestArrived,
    ServerAdopted,
    UnloadRequested,
    YieldRequested,
)
from hotseat.scheduling.handover import (
    Departure,
    Eviction,
    FailedModel,
    Failure,
    Handover,
    HeldLease,
    LevelRecord,
    ProcessSpec,
    ServerRecord,
    WaitingTicket,
    WaitingUnload,
    Yielding,
    by_place,
    sizes,
)
from hotseat.scheduling.lifecycle import Move, Phase
from hotseat.scheduling.memory_pressure import count_measured
from hotseat.scheduling.queue import RequestKind, Ticket
from hotseat.scheduling.state import LONG_AGO, takes_slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Instant, LaunchId, ModelName, Upstream
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.state import Memory, ModelState, State
    from hotseat.scheduling.transitions import Transitions

ADOPTED = "adopted from the previous process"
SHUTTING_DOWN = "hotseat is shutting down"


# The previous process


def export(state: State, now: Instant) -> Handover:
    return Handover(
        last_launch=state.last_launch,
        servers=tuple(_server(model, now) for model in state.with_process()),
        waiting=tuple(_waiting(state, now)),
        unloads=tuple(_unloads(state)),
        failed=tuple(_failed(state, now)),
        evictions=tuple(_evictions(state, now)),
        yields=tuple(Yielding(y.reason, tuple(sorted(y.places)), y.for_program) for y in state.yields.values()),
        saved=tuple(model.name for model in state.models.values() if model.conversations.has_saved),
        available=tuple(state.reduced().items()),
        budgets=sizes(state.catalog.budgets),
    )


def _server(model: ModelState, now: Instant) -> ServerRecord:
    assert model.launch is not None
    level = model.sleep_level
    return ServerRecord(
        model=model.name,
        launch=model.launch,
        spec=ProcessSpec.of(model.spec),
        level=LevelRecord(level.name, sizes(level.memory), level.keeps_weights) if level else None,
        departure=_departure(model, now),
        phase_s=now - model.since,
        ready_s=now - model.ready_at,
        idle_s=now - model.idle_since,
        claimed_s=None if model.claimed_at == LONG_AGO else now - model.claimed_at,
        served=model.served,
        has_keep_alive=model.keep_alive is not None,
        keep_alive_s=model.keep_alive.seconds if model.keep_alive else None,
        fell_asleep_in_s=model.fell_asleep_in_s,
        slots_reported=model.slots_reported,
        gpus=model.gpus,
        given=sizes(model.given),
        measured=sizes(model.measured),
        has_answered=model.has_answered,
        leases=tuple(_leases(model, now)),
    )


def _departure(model: ModelState, now: Instant) -> Departure | None:
    if model.phase is not Phase.DRAINING or model.cause is None:
        return None
    return Departure(model.cause, model.why, None if model.cut_at is None else max(0.0, model.cut_at - now))


def _leases(model: ModelState, now: Instant) -> Iterator[HeldLease]:
    for lease in model.leases.values():
        yield HeldLease(lease.id, lease.client, now - lease.since, takes_slot(lease))


def _waiting(state: State, now: Instant) -> Iterator[WaitingTicket]:
    for queue in state.queue.queues():
        for ticket in queue.in_order():
            waited_s = now - ticket.since
            yield WaitingTicket(ticket.id, ticket.model, ticket.client, ticket.kind, waited_s, ticket.is_batch)


def _unloads(state: State) -> Iterator[WaitingUnload]:
    for model in state.with_process():
        yield from (WaitingUnload(ticket, model.name) for ticket in model.unload_tickets)
    for event in state.postponed:
        yield WaitingUnload(event.ticket, event.model, event.force)


def _failed(state: State, now: Instant) -> Iterator[FailedModel]:
    for model in state.models.values():
        retry_in_s = max(0.0, model.retry_at - now) if model.phase is Phase.BACKOFF else 0.0
        useless, given_up = model.conversations.useless_restores, model.conversations.keeps_none_because
        if model.failures or retry_in_s or model.failed_levels or useless or given_up:
            failure = Failure(
                model=model.name,
                failures=model.failures,
                retry_in_s=retry_in_s,
                why=model.why,
                last_error=model.last_error,
                may_pass=model.may_pass,
                sleep_levels=tuple(sorted(model.failed_levels)),
                useless_restores=useless,
                keeps_none_because=given_up,
            )
            yield FailedModel(failure, ProcessSpec.of(model.spec))


def _evictions(state: State, now: Instant) -> Iterator[Eviction]:
    for name in state.queue.models():
        evicted_at = state.models[name].evicted_at
        if evicted_at > LONG_AGO:
            yield Eviction(name, now - evicted_at)


# The next process


def adoption(handover: Handover, catalog: Catalog, upstreams: Mapping[LaunchId, Upstream]) -> Iterator[Event]:
    """What the next scheduler is told, in this order and before any request of its own.

    `upstreams` are the servers that were found alive; the others are left out, as if they had exited.
    """
    failures = tuple(each.failure for each in handover.failed if _counts(each, handover, catalog))
    yield HandoverReceived(handover.last_launch, failures, handover.evictions, handover.saved)
    if handover.available:
        yield DevicesChanged(dict(handover.available))
    for each in handover.yields:
        yield YieldRequested(each.reason, frozenset(each.places), each.for_program)
    for server in handover.servers:
        if upstream := upstreams.get(server.launch):
            given = None if _has_other_figures(server.model, server.spec, handover, catalog) else server.given
            yield _adopted(server, catalog, upstream, by_place(given))
    for ticket in handover.waiting:
        yield _arrived(ticket)
    for unload in handover.unloads:
        yield UnloadRequested(unload.ticket, unload.model, unload.force)
    yield HandoverCompleted()


def _counts(failed: FailedModel, handover: Handover, catalog: Catalog) -> bool:
    """A changed model is tried at once; so is one that backs off, and failed with other figures."""
    name = failed.failure.model
    spec = catalog.models.get(name)
    if spec is None or must_restart(failed.spec.as_spec(name), spec):
        return False
    return not (failed.failure.retry_in_s and _has_other_figures(name, failed.spec, handover, catalog))


def _has_other_figures(name: ModelName, spec: ProcessSpec, handover: Handover, catalog: Catalog) -> bool:
    """As at a reload: what ran or failed alone did so with the old budgets and the old estimate."""
    if handover.budgets is not None and by_place(handover.budgets) != catalog.budgets:
        return True
    new = catalog.models.get(name)
    return new is not None and by_place(spec.estimated) != new.estimated


def _adopted(server: ServerRecord, catalog: Catalog, upstream: Upstream, given: Memory | None) -> ServerAdopted:
    return ServerAdopted(
        model=server.model,
        launch=server.launch,
        spec=server.spec.as_spec(server.model),
        upstream=upstream,
        sleep_level=_level(server.level, catalog.models.get(server.model)) if server.level else None,
        departure=server.departure,
        phase_s=server.phase_s,
        ready_s=server.ready_s,
        idle_s=server.idle_s,
        claimed_s=server.claimed_s,
        served=server.served,
        keep_alive=KeepAliveChanged(server.model, server.keep_alive_s) if server.has_keep_alive else None,
        fell_asleep_in_s=server.fell_asleep_in_s,
        slots_reported=server.slots_reported,
        gpus=server.gpus,
        given=given,
        measured=by_place(server.measured),
        has_answered=server.has_answered,
        leases=server.leases,
    )


def _level(record: LevelRecord, spec: ModelSpec | None) -> SleepLevel:
    """A level that is not configured any more has no steps: the scheduler stops a server that sleeps at one."""
    known = {level.name: level for level in spec.sleep.levels} if spec and spec.sleep else {}
    unknown = SleepLevel(record.name, (), (), memory=by_place(record.memory), keeps_weights=record.keeps_weights)
    return known.get(record.name, unknown)


def _arrived(ticket: WaitingTicket) -> RequestArrived | LoadRequested:
    if ticket.kind is RequestKind.LOAD:
        return LoadRequested(ticket.ticket, ticket.model, ticket.client, ticket.waited_s, "")
    takes_slot = ticket.kind is RequestKind.USE
    return RequestArrived(ticket.ticket, ticket.model, ticket.client, takes_slot, ticket.waited_s, ticket.is_batch, "")


# Transitions


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
