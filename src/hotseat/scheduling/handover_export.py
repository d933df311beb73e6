"""The handover of a scheduler, and the events with which the next one takes it over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.catalog.catalog import must_restart
from hotseat.catalog.sleeping import SleepLevel
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
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.queue import RequestKind
from hotseat.scheduling.state import LONG_AGO, takes_slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Instant, LaunchId, Upstream
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.state import ModelState, State

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
    failures = tuple(each.failure for each in handover.failed if _is_same(each, catalog))
    yield HandoverReceived(handover.last_launch, failures, handover.evictions, handover.saved)
    if handover.available:
        yield DevicesChanged(dict(handover.available))
    for each in handover.yields:
        yield YieldRequested(each.reason, frozenset(each.places), each.for_program)
    for server in handover.servers:
        if upstream := upstreams.get(server.launch):
            yield _adopted(server, catalog, upstream)
    for ticket in handover.waiting:
        yield _arrived(ticket)
    for unload in handover.unloads:
        yield UnloadRequested(unload.ticket, unload.model, unload.force)
    yield HandoverCompleted()


def _is_same(failed: FailedModel, catalog: Catalog) -> bool:
    name = failed.failure.model
    spec = catalog.models.get(name)
    return spec is not None and not must_restart(failed.spec.as_spec(name), spec)


def _adopted(server: ServerRecord, catalog: Catalog, upstream: Upstream) -> ServerAdopted:
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
        given=by_place(server.given),
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
