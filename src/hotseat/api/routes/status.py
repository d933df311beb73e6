"""State beyond the contract: the queue and its reasons, each model's phase and history, readiness."""

from __future__ import annotations

import time
from math import isfinite
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query

from hotseat.api.deps import ApiDeps, Deps
from hotseat.api.fleet_models import details_from_fleet, other_hosts
from hotseat.api.model_schemas import Conversations, Device, Footprint, Model, ModelDetails, Models
from hotseat.api.routes import overrides
from hotseat.api.routes.events import about, entry_json, last_start, last_stop
from hotseat.api.routes.fleet import Membership
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schema_base import Failure
from hotseat.api.slices import Listing, page, rows
from hotseat.api.status_schemas import Queue, Ready, Ticket
from hotseat.errors import ShuttingDown
from hotseat.fleet.view import FleetConnection
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import failing_loops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, Instant, ModelName, Place, Seconds
    from hotseat.scheduling.view import DeviceView, ModelView, TicketView, View
    from hotseat.settings import Readiness

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

RECENT_ENTRIES = 20
"""How many of the last entries about a model are shown."""
STUCK_S = 50.0
"""After `unloadTimeout`, at whose end a server is killed."""
GUARD_S = 3.0
SILENT: Responses = {502: {"model": Failure, "description": "Only another host knows this, and it does not respond."}}


@router.get("/queue", summary="Waiting requests and their reasons, oldest first", response_model=Queue)
async def queue(deps: Deps) -> Listing:
    view = deps.dispatcher.views.current()
    waiting = rows(ticket(view, each) for each in view.queue)
    return Listing(page(Queue(waiting=[], oldest_s=oldest_s(view)), waiting=waiting))


@router.get("/models", summary="Every configured model and its phase", response_model=Models)
async def models(deps: Deps) -> Listing:
    views, catalog = deps.dispatcher.views, deps.dispatcher.catalog
    view = views.current()
    state = Models(
        at=time.time(),
        started_at=deps.started_at,
        models=[],
        budgets=by_device(catalog.budgets),
        devices=[device(seen) for seen in view.devices],
        yielding=view.yielding,
        reload_failed=deps.has_reload_failed(),
        failing_loops=failing_loops(),
        fleet=membership(deps),
    )
    each = (model(deps, view, seen, catalog.models.get(seen.name)) for seen in views.of_each(view))
    return Listing(page(state, models=rows(each)))


@router.get(
    "/models/{name:path}",
    summary="One model, its waiting requests and its recent history, on whichever host it runs",
    responses={**UNKNOWN, **SILENT},
)
async def one_model(
    name: str,
    deps: Deps,
    local: Annotated[bool, Query(description="Query no other host of the fleet.")] = False,
) -> ModelDetails:
    catalog, fleet_admin = deps.dispatcher.catalog, None if local else deps.fleet()
    fleet_model = catalog.fleet_models.get(name)
    if fleet_admin is not None and fleet_model is not None:
        return await details_from_fleet(fleet_admin, fleet_model.name)
    spec = catalog.resolve(name)
    shown = details(deps, deps.dispatcher.views.current(), spec)
    return (
        shown
        if fleet_admin is None
        else shown.model_copy(update={"other_hosts": await other_hosts(fleet_admin, spec.name)})
    )


@router.get(
    "/ready",
    summary="Is hotseat ready for requests?",
    response_model_exclude_none=True,
    responses={
        503: {
            "model": Failure,
            "description": "It is shutting down, a request has waited too long, a server or the guard is stuck, or a "
            "background loop fails again and again.",
        }
    },
)
async def ready(deps: Deps) -> Ready:
    if deps.is_closing():
        raise ShuttingDown("hotseat is shutting down; use another instance")
    view, limits = deps.dispatcher.views.current(), deps.settings().readiness
    if problem := unready(view, deps.dispatcher.catalog, limits, deps.silent(), deps.guard_silent_s()):
        raise ShuttingDown(problem)
    if failing := failing_loops():
        raise ShuttingDown(f'the background loop "{failing[0]}" fails again and again; hotseat\'s log says why')
    fleet_admin = deps.fleet()
    if fleet_admin is None:
        return Ready(message="hotseat is ready")
    # Only the store is unreachable. This host still works, so load balancers should keep using it.
    said = (
        "hotseat is ready, but disconnected from the fleet"
        if fleet_admin.connection is FleetConnection.DISCONNECTED
        else "hotseat is ready"
    )
    return Ready(message=said, fleet=fleet_admin.connection)


def model(deps: ApiDeps, view: View, seen: ModelView, spec: ModelSpec | None) -> Model:
    """Without a spec, the model was removed from the configuration and is leaving."""
    upstream = seen.upstream
    return Model(
        model=seen.name,
        aliases=list(spec.aliases) if spec else [],
        name=spec.title if spec else "",
        description=spec.description if spec else "",
        unlisted=spec.unlisted if spec else True,
        phase=seen.phase,
        phase_s=round(view.now - seen.since, 3) if isfinite(seen.since) else None,
        pid=upstream.shown_pid if upstream else None,
        address=str(upstream.address) if upstream else None,
        port=upstream.address.port if upstream else None,
        in_flight=seen.in_flight,
        waiting=seen.waiting,
        why=seen.why,
        failures=seen.failures,
        retry_in_s=left_s(seen.retry_at, view),
        last_error=seen.last_error,
        ttl_left_s=left_s(seen.expires_at, view),
        load_s=seen.load_s,
        context=deps.context(seen.name) or (spec.capabilities.context if spec else 0) or None,
        level=seen.level,
        pinned=spec.pinned if spec else False,
        ttl=(spec.ttl_s or 0.0) if spec else 0.0,
        overrides=overrides.shown(spec) if spec else None,
        configured=overrides.configured(spec) if spec else None,
        memory=by_device(spec.memory) if spec and spec.memory is not None else None,
        footprint=footprint(seen) if view.devices else None,
        adopted=seen.is_adopted,
        gpus=[place.device for place in seen.gpus],
        progress=progress(deps, seen.name, seen.phase),
        conversations=conversations(deps, seen),
        label=deps.dispatcher.catalog.labels.of_model.get(seen.name),
        tokens_per_s=None if (rate := deps.activity.rates.get(seen.name)) is None else round(rate, 2),
    )


def left_s(at: Instant | None, view: View) -> float | None:
    return None if at is None else round(max(0.0, at - view.now), 3)


def membership(deps: ApiDeps) -> Membership | None:
    fleet_admin = deps.fleet()
    return None if fleet_admin is None else Membership(host=fleet_admin.name, connection=fleet_admin.connection)


def footprint(seen: ModelView) -> Footprint:
    known = seen.footprint
    return Footprint(
        reserved=by_device(known.memory) if known else None,
        source=known.source.value if known else "unknown",
        estimated=None if seen.estimated is None else by_device(seen.estimated),
        measured=None if seen.measured is None else by_device(seen.measured),
    )


def conversations(deps: ApiDeps, seen: ModelView) -> Conversations | None:
    known = seen.conversations
    if known is None:
        return None
    kept, size = deps.conversations(seen.name)
    return Conversations(
        kept=kept,
        bytes=size,
        saved=known.saved,
        restored=known.restored,
        reused=known.reused,
        gained_s=round(known.gained_s, 3),
        problem=known.problem,
    )


def device(seen: DeviceView) -> Device:
    return Device(device=str(seen.place), budget=seen.budget, available=seen.available, reserved=seen.reserved)


def by_device(sizes: Mapping[Place, Bytes]) -> dict[str, int]:
    return {str(place): size for place, size in sizes.items()}


def progress(deps: ApiDeps, name: ModelName, phase: Phase) -> float | None:
    """Only while it loads, since it queries the kernel."""
    share = deps.share_read(name) if phase is Phase.LOADING else None
    return None if share is None else round(share, 3)


def details(deps: ApiDeps, view: View, spec: ModelSpec) -> ModelDetails:
    entries, fleet_admin = about(spec.name, deps.journal.entries()), deps.fleet()
    return ModelDetails(
        host=None if fleet_admin is None else fleet_admin.name,
        **dict(model(deps, view, deps.dispatcher.views.of(spec.name), spec)),
        queue=[ticket(view, waiting) for waiting in view.queue if waiting.model == spec.name],
        last_start=last_start(spec.name, entries),
        last_stop=last_stop(spec.name, entries),
        history=[entry_json(entry) for entry in entries[-RECENT_ENTRIES:]],
    )


def ticket(view: View, waiting: TicketView) -> Ticket:
    return Ticket(
        ticket=waiting.ticket,
        model=waiting.model,
        client=waiting.client,
        waited_s=round(view.now - waiting.since, 3),
        why=waiting.why,
        expected_s=None if waiting.expected_in_s is None else round(waiting.expected_in_s, 3),
        at_most_s=left_s(waiting.not_later_than, view),
    )


def unready(
    view: View, catalog: Catalog, limits: Readiness, silent: Mapping[ModelName, Seconds], guard_silent_s: Seconds
) -> str | None:
    """Why this host should get no requests."""
    if guard_silent_s >= GUARD_S:
        return f"the guard process, which starts and stops models, has not answered for {guard_silent_s:.0f} s"
    if silent:
        model, seconds = next(iter(silent.items()))
        return f"{model} is unresponsive: its server has not responded for {seconds:.0f} s"
    oldest = oldest_s(view)
    if oldest > limits.oldest_wait_s:
        return f"a request has waited for {oldest:.0f} s (ready.oldestWait); GET /hotseat/queue says why"
    stuck = (_stuck(seen, view.now, catalog.models.get(seen.name)) for seen in view.models)
    return next(filter(None, stuck), None)


def _stuck(seen: ModelView, now: Instant, spec: ModelSpec | None) -> str | None:
    """A server that exists long after it was killed, maybe in a driver call, keeps its memory."""
    killed_after_s = spec.unload_timeout_s if spec else 0.0
    if seen.phase is not Phase.UNLOADING or now - seen.since <= killed_after_s + STUCK_S:
        return None
    return f"{seen.name} has been stopping for {now - seen.since:.0f} s; its process does not exit"


def oldest_s(view: View) -> float:
    return round(view.now - view.queue[0].since, 3) if view.queue else 0.0
