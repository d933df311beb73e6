"""An immutable snapshot of the scheduler's state for API, dashboard, metrics and command line, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from hotseat.catalog.spec import Footprint, Source
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_fit import added_up, footprint, holds
from hotseat.scheduling.settle import UNWANTED
from hotseat.scheduling.wait_reasons import in_the_way, served_in_s, usual_load, waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotseat.identifiers import Bytes, ClientId, Instant, LaunchId, ModelName, Place, Seconds, TicketId, Upstream
    from hotseat.scheduling.state import ModelState, State
    from hotseat.scheduling.wait_reasons import Wait


class ConversationsView(Struct, frozen=True):
    """The conversations of a model that keeps them, since its figures are kept."""

    saved: int
    restored: int
    reused: int
    """Restored ones that were continued."""
    gained_s: Seconds
    """Time that clients would have waited for prompts to be computed again."""
    problem: str
    """Why they are not saved any more; empty: they are."""


class ModelView(Struct, frozen=True):
    name: ModelName
    phase: Phase
    since: Instant
    """When the phase began."""
    upstream: Upstream | None
    in_flight: int
    waiting: int
    why: str
    """One sentence: why it is in this phase, or why its requests wait."""
    failures: int = 0
    """Consecutive failed starts and crashes."""
    last_error: str = ""
    retry_at: Instant | None = None
    """When its backoff ends; None: it is not backing off."""
    expires_at: Instant | None = None
    """End of its ttl if it stays unused."""
    ttl_s: Seconds | None = None
    """Idle time until it is unloaded: a client's `keep_alive`, or else as configured; None: never."""
    last_used: Instant = 0.0
    """Now for a model in use, else when its last request ended or it became ready."""
    load_s: Seconds | None = None
    """Measured load time; None: never loaded."""
    footprint: Footprint | None = None
    """Memory it counts as; None: unknown, so it takes a whole device."""
    estimated: Mapping[Place, Bytes] | None = None
    """Estimate from its files and command line."""
    measured: Mapping[Place, Bytes] | None = None
    """Measured memory of its current process."""
    launch: LaunchId | None = None
    """Its current process."""
    served: int = 0
    """Requests granted to it."""
    slots: int | None = None
    """Requests that it processes at a time, as configured or as its server reports; None: unknown."""
    level: str | None = None
    """Its sleep level if it sleeps or will sleep; else None."""
    conversations: ConversationsView | None = None
    """None: it keeps none."""
    gpus: tuple[Place, ...] = ()
    """The cards that were chosen for its current process; empty: none were."""
    is_adopted: bool = False
    """The previous process of hotseat has started its current process."""

    @property
    def is_running(self) -> bool:
        """`running` in the sense of the HTTP contract: until its server is told to stop."""
        return self.phase.value in ("ready", "draining")


class InUse(NamedTuple):
    """A server with requests in flight."""

    model: ModelName
    launch: LaunchId
    upstream: Upstream
    check_endpoint: str | None
    """None: no health check."""


class TicketView(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    client: ClientId
    since: Instant
    why: str
    """One reason, in one sentence."""
    expected_in_s: Seconds | None = None
    """Estimated time until it is served; None: unknown."""
    not_later_than: Instant | None = None
    """Latest time for the first ticket, if requests and loads take no longer than before."""


class DeviceView(Struct, frozen=True):
    place: Place
    budget: Bytes
    available: Bytes
    """What models may use now: less than the budget if other programs use the device."""
    reserved: Bytes
    """Memory that loaded models count as."""


@dataclass(frozen=True)
class View:
    now: Instant
    models: tuple[ModelView, ...]
    queue: tuple[TicketView, ...]
    """Waiting tickets, oldest first."""
    devices: tuple[DeviceView, ...] = ()
    """Devices with a budget."""
    yielding: str = ""
    """Why models must yield memory; empty: they need not."""

    def model(self, name: ModelName) -> ModelView:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[ModelName, ModelView]:
        return {model.name: model for model in self.models}

    def running(self) -> tuple[ModelView, ...]:
        return tuple(model for model in self.models if model.is_running)


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
