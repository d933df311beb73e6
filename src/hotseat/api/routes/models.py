"""Every configured model: its phase, memory, conversations and history, on whichever host of a fleet it runs.

A model can be pinned, and its ttl changed, while hotseat runs.
"""

from __future__ import annotations

import asyncio
import time
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, ValidationError

from hotseat.api.deps import ApiDeps, Caller, Deps, permitted
from hotseat.api.routes.events import Cause, JournalEntry, about, entry_json, last_start, last_stop
from hotseat.api.routes.fleet import Membership
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.routes.status import Ticket, left_s, ticket
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.catalog.spec import MOST_TTL_S
from hotseat.errors import HostUnresponsive
from hotseat.scheduling.events import OverridesChanged
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import failing_loops

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.api.deps import FleetAdmin
    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.view import Sighting
    from hotseat.identifiers import Bytes, ModelName, Place
    from hotseat.scheduling.view import DeviceView, ModelView, View

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

SHARE_READ = "Share of its files, from 0 to 1, that a loading server has read; null: unknown."
RECENT_ENTRIES = 20
"""How many of the last entries about a model are shown."""
SILENT: Responses = {502: {"model": Failure, "description": "Only another host knows this, and it does not respond."}}
AT_ONCE = 32
"""Hosts that are asked, and so many answers of 256 KiB in memory."""
LONGEST = 1000
"""Characters of a reason that are shown: a thousand hosts may give one, in a response that is made at once."""
BEST_FIRST = ("ready", "loading", "waking")


class Footprint(Schema):
    """Memory use of a model per device, in bytes."""

    reserved: Annotated[dict[str, int] | None, Field(description="Reserved bytes per device; null: a whole device.")]
    source: Annotated[
        Literal["declared", "measured", "estimated", "unknown"], Field(description="Source of the figure.")
    ]
    estimated: Annotated[
        dict[str, int] | None,
        Field(description="Estimate from its files and command line; null: unknown."),
    ]
    measured: Annotated[dict[str, int] | None, Field(description="Measured for the current process.")]


class Device(Schema):
    """A device with a budget, in bytes."""

    device: str
    budget: int
    available: Annotated[
        int, Field(description="Bytes available to models now; less than the budget if others use it.")
    ]
    reserved: Annotated[int, Field(description="Bytes reserved for the running models.")]


class Overrides(Schema):
    """What is set for a model at run time instead of its configuration. It is kept across restarts."""

    # Of a request's body: pydantic warns if the schema of a body is built later.
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=False)

    pinned: Annotated[bool | None, Field(description="Null: as configured.")] = None
    ttl: Annotated[
        float | None,
        Field(ge=0, le=MOST_TTL_S, allow_inf_nan=False, description="Seconds; 0: never. Null: as configured."),
    ] = None


class Configured(Schema):
    pinned: bool
    ttl: Annotated[float, Field(description="Seconds; 0: never.")]


class Conversations(Schema):
    """What a model's server has computed of conversations, saved when it stops and restored when it starts."""

    kept: Annotated[int, Field(description="Conversations on disk.")]
    bytes: Annotated[int, Field(description="Their size.")]
    saved: int
    restored: int
    reused: Annotated[int, Field(description="Restored ones that a request has continued.")]
    gained_s: Annotated[float, Field(description="Seconds in which they would have been computed again.")]
    problem: Annotated[str, Field(description="Why they are not saved any more; empty: they are.")]


class Model(Schema):
    model: str
    aliases: list[str]
    name: str
    description: str
    unlisted: bool
    phase: Phase
    phase_s: Annotated[float | None, Field(description="Seconds in this phase; null: since the start.")]
    pid: int | None
    address: str | None
    port: int | None
    in_flight: int
    waiting: int
    why: Annotated[str, Field(description="Why it is in this phase, or why its requests wait.")]
    failures: Annotated[int, Field(description="Failed starts and crashes in a row.")]
    retry_in_s: Annotated[float | None, Field(description="Seconds until its backoff ends; null: no backoff.")]
    last_error: str
    ttl_left_s: Annotated[float | None, Field(description="Seconds until it is unloaded if it stays idle.")]
    load_s: Annotated[float | None, Field(description="Measured load time.")]
    progress: Annotated[float | None, Field(description=SHARE_READ)]
    tokens_per_s: Annotated[
        float | None, Field(description="Generated tokens per second of the last response with usage.")
    ]
    context: Annotated[
        int | None,
        Field(description="Tokens of one request: as its last server reported, else as declared; null: unknown."),
    ] = None
    level: Annotated[str | None, Field(description="Sleep level, current or after draining; null: none.")]
    pinned: Annotated[bool, Field(description="Never evicted.")]
    ttl: Annotated[float, Field(description="Seconds unused until it is unloaded; 0: never.")] = 0.0
    overrides: Annotated[
        Overrides | None, Field(description="Set at run time; `pinned` and `ttl` include it. Null: nothing is set.")
    ] = None
    configured: Annotated[
        Configured | None, Field(description="What the configuration says, if something is set at run time.")
    ] = None
    memory: Annotated[dict[str, int] | None, Field(description="Configured bytes per device; null: not configured.")]
    footprint: Annotated[Footprint | None, Field(description="Null if no device has a budget.")]
    adopted: Annotated[bool, Field(description="Whether an earlier process of hotseat has started its current server.")]
    gpus: Annotated[
        list[str],
        Field(description="GPUs chosen for its current server; `gpus` in `footprint` is their memory together."),
    ]
    conversations: Annotated[
        Conversations | None, Field(description="Null if its conversations are not kept across stops.")
    ] = None
    label: Annotated[
        str | None,
        Field(description="Its server's own web pages are at http://LABEL.localhost:PORT/. Null: it is being removed."),
    ] = None


class OtherHost(Schema):
    """A model on another host of the fleet."""

    host: str
    phase: str
    why: Annotated[
        str, Field(description="Reason given by that host, or why it did not answer; empty: none was given.")
    ]


class ModelDetails(Model):
    """A model, the requests that wait for it, and its recent history."""

    host: Annotated[str | None, Field(description="Host that this information is about; null: not in a fleet.")] = None
    other_hosts: list[OtherHost] = Field(default_factory=list, description="Other hosts that have the model.")
    queue: list[Ticket]
    last_start: Cause | None
    last_stop: Cause | None
    history: list[JournalEntry]


class Models(Schema):
    at: Annotated[float, Field(description="Unix time of this response, by hotseat's own clock.")]
    started_at: Annotated[float, Field(description="When hotseat was started; numbers count from there.")]
    models: list[Model]
    budgets: Annotated[
        dict[str, int], Field(description="Bytes available to models per device; empty: no `devices` are configured.")
    ]
    devices: list[Device]
    yielding: Annotated[str, Field(description="Reason for a yield of memory; empty: none is active.")]
    reload_failed: Annotated[bool, Field(description="The last reload had errors; `GET /hotseat/config` has them.")]
    failing_loops: Annotated[
        list[str], Field(description="Endless work in the background that fails again and again; the log says why.")
    ]
    fleet: Annotated[Membership | None, Field(description="Connection state to the fleet; null: not in a fleet.")]


@router.put(
    "/models/{name:path}/overrides",
    summary="Pin a model or change its ttl at run time; kept across restarts, the configuration is not written",
    responses=UNKNOWN,
)
async def override(name: str, body: Overrides, deps: Deps, caller: Caller) -> Result:
    model = permitted(name, deps, caller).name
    deps.dispatcher.tell(OverridesChanged(model, body.pinned, body.ttl))
    if body.pinned is not None or body.ttl is not None:
        return Result(message=f"{model} differs from its configuration now, also after a restart")
    return Result(message=f"{model} follows its configuration")


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
    found = details(deps, deps.dispatcher.views.current(), spec)
    return (
        found
        if fleet_admin is None
        else found.model_copy(update={"other_hosts": await other_hosts(fleet_admin, spec.name)})
    )


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
        overrides=overrides_of(spec) if spec else None,
        configured=configured(spec) if spec else None,
        memory=by_device(spec.memory) if spec and spec.memory is not None else None,
        footprint=footprint(seen) if view.devices else None,
        adopted=seen.is_adopted,
        gpus=[place.device for place in seen.gpus],
        progress=progress(deps, seen.name, seen.phase),
        conversations=conversations(deps, seen),
        label=deps.dispatcher.catalog.labels.of_model.get(seen.name),
        tokens_per_s=None if (rate := deps.activity.rates.get(seen.name)) is None else round(rate, 2),
    )


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


def overrides_of(spec: ModelSpec) -> Overrides | None:
    return Overrides(pinned=spec.overrides.pinned, ttl=spec.overrides.ttl_s) if spec.overrides else None


def configured(spec: ModelSpec) -> Configured | None:
    said = spec.configured
    return None if said is None else Configured(pinned=said.pinned, ttl=said.ttl_s or 0.0)


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


async def other_hosts(fleet_admin: FleetAdmin, model: ModelName) -> list[OtherHost]:
    """Many hosts are asked at once, so that silent ones cost one short wait."""
    return await _states(fleet_admin, fleet_admin.sightings(model), model)


async def _states(fleet_admin: FleetAdmin, sightings: Sequence[Sighting], model: ModelName) -> list[OtherHost]:
    places = asyncio.Semaphore(AT_ONCE)

    async def state_at(seen: Sighting) -> OtherHost:
        async with places:
            try:
                why = str((await fleet_admin.model_details(seen.host, model)).get("why", ""))
            except HostUnresponsive as problem:
                why = problem.message
        return OtherHost(host=seen.host, phase=seen.phase, why=why[:LONGEST])

    return await asyncio.gather(*map(state_at, sightings))


async def details_from_fleet(fleet_admin: FleetAdmin, model: ModelName) -> ModelDetails:
    """For a model that only other hosts have: the report of a host that holds it, or else of one that may run it."""
    seen = sorted(fleet_admin.sightings(model), key=_rank)
    host = seen[0].host if seen else next(iter(fleet_admin.offering(model)), None)
    if host is None:
        raise HostUnresponsive(f"{model} belongs to other hosts, and none of them is available")
    phase = seen[0].phase if seen else "not loaded"
    try:
        details = ModelDetails.model_validate(await fleet_admin.model_details(host, model))
    except ValidationError:
        raise HostUnresponsive(f"{model} is {phase} on {host}, which gave no reason") from None
    except HostUnresponsive as problem:
        raise HostUnresponsive(f"{model} is {phase} on {host}; {problem.message[:LONGEST]}") from None
    return details.model_copy(update={"host": host, "other_hosts": await _states(fleet_admin, seen[1:], model)})


def _rank(seen: Sighting) -> tuple[int, str]:
    return (BEST_FIRST.index(seen.phase) if seen.phase in BEST_FIRST else len(BEST_FIRST), seen.host)
