"""Builds the immutable View from the state."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from hotseat.catalog.spec import Footprint, Source
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import added_up, footprint, holds
from hotseat.scheduling.settle import UNWANTED
from hotseat.scheduling.view import ConversationsView, DeviceView, ModelView, TicketView, View
from hotseat.scheduling.wait_reasons import in_the_way, served_in_s, usual_load, waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotseat.identifiers import Instant
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.wait_reasons import Wait


def snapshot(state: State, now: Instant, shown: Iterable[ModelState]) -> View:
    known = waits(state, now) if state.queue else {}
    models = tuple(_model(state, model, known.get(model.name), now) for model in shown)
    line = [ticket for name, wait in known.items() for ticket in _tickets(state, state.models[name], wait)]
    in_order = tuple(sorted(line, key=lambda ticket: (ticket.since, ticket.ticket)))
    return View(now, models, in_order, _devices(state), state.yielding.reason if state.yielding else "")


def _devices(state: State) -> tuple[DeviceView, ...]:
    reserved = added_up(holds(state, model) for model in state.with_process())
    return tuple(
        DeviceView(place, budget, state.limits[place], reserved.get(place, 0))
        for place, budget in state.catalog.budgets.items()
    )


def why(state: State, model: ModelState, now: Instant) -> str:
    """One sentence: why its requests wait, or why it is in its phase."""
    wait = _wait(state, model, now)
    return wait.why if wait else _why(state, model, now)


def snapshot_of(state: State, model: ModelState, now: Instant) -> ModelView:
    return _model(state, model, _wait(state, model, now), now)


def _wait(state: State, model: ModelState, now: Instant) -> Wait | None:
    return waits(state, now).get(model.name) if state.queue.count(model.name) else None


def _model(state: State, model: ModelState, wait: Wait | None, now: Instant) -> ModelView:
    return ModelView(
        name=model.name,
        phase=model.phase,
        since=model.since,
        upstream=model.upstream,
        in_flight=len(model.leases),
        waiting=state.queue.count(model.name),
        why=wait.why if wait else _why(state, model, now),
        failures=model.failures,
        last_error=model.last_error,
        retry_at=model.retry_at if model.phase is Phase.BACKOFF else None,
        expires_at=None if model.spec.pinned else model.expires_at(),
        ttl_s=None if model.spec.pinned else model.ttl_s,
        last_used=now if model.leases else model.idle_since,
        load_s=model.stats.load_s,
        footprint=_footprint(state, model),
        estimated=model.spec.estimated,
        measured=model.measured,
        launch=model.launch,
        served=model.served,
        slots=model.slots,
        level=model.sleep_level.name if model.sleep_level else None,
        gpus=model.gpus,
        is_adopted=model.is_adopted,
        conversations=_conversations(model),
    )


def _conversations(model: ModelState) -> ConversationsView | None:
    if not model.spec.keeps_conversations:
        return None
    stats = model.stats.conversations
    return ConversationsView(
        stats.saved, stats.restored, stats.reused, stats.gained_s, model.conversations.keeps_none_because
    )


def _footprint(state: State, model: ModelState) -> Footprint | None:
    """What it counts as now; asleep it counts as what it keeps."""
    if not state.catalog.budgets:
        return None
    if model.phase is not Phase.ASLEEP or model.sleep_level is None:
        return footprint(model)
    sleep_stats = model.stats.sleep_stats_by_level.get(model.sleep_level.name)
    was_seen = sleep_stats is not None and sleep_stats.memory is not None
    source = Source.MEASURED if was_seen else Source.ESTIMATED
    return Footprint(holds(state, model), source if model.sleep_level.memory is None else Source.DECLARED)


def _tickets(state: State, model: ModelState, wait: Wait) -> Iterator[TicketView]:
    """The tickets of one model in order of service; only the first has a latest time."""
    line = state.queue.of(model.name)
    assert line is not None
    for ahead, ticket in enumerate(line.in_order()):
        reason = f"{wait.why}; {ahead} {'request' if ahead == 1 else 'requests'} ahead" if ahead else wait.why
        expected_s = wait.ready_in_s + served_in_s(state, model, ahead)
        latest, known_s = None if ahead else wait.not_later_than, expected_s if isfinite(expected_s) else None
        yield TicketView(ticket.id, ticket.model, ticket.client, ticket.since, reason, known_s, latest)


def _why(state: State, model: ModelState, now: Instant) -> str:
    """Why a model without waiting requests is in its phase."""
    match model.phase:
        case Phase.LOADING:
            doing = "waking" if model.sleep_level else "loading"
            doing = "restoring conversations, loading" if model.is_restoring else doing
            return f"{doing} for {now - model.since:.1f} s, {usual_load(state, model, now, 1)}: {model.why}"
        case Phase.DRAINING:
            leases = len(model.leases)
            first = "1 request" if leases == 1 else f"{leases} requests"
            first += in_the_way(model, now)
            return f"draining {first}, then {'going to sleep' if model.sleep_level else 'stopping'}: {model.why}"
        case Phase.UNLOADING:
            doing = "falling asleep" if model.falls_asleep else "stopping"
            doing = "saving conversations" if model.conversations.is_saving else doing
            return f"{doing} for {now - model.since:.1f} s: {model.why}"
        case Phase.READY if model.keep_alive is not None:
            return f"{model.why}; {_kept_in_words(model)}"
        case Phase.READY if model.conversations.keeps_none_because:
            return f"{model.why}; {model.conversations.keeps_none_because}"
        case _:
            return model.why


def _kept_in_words(model: ModelState) -> str:
    if model.spec.pinned:
        return "it is pinned, so the keep_alive of a client has no effect"
    if model.ttl_s is None:
        return "a client wanted to keep it until its memory is needed (keep_alive)"
    if model.is_unwanted:
        return UNWANTED
    return f"a client wanted to keep it for {model.ttl_s:g} s without requests (keep_alive)"
