"""The fleet: its hosts and their models, what operators order a host to do, and why a host cannot load a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from msgspec.json import Decoder
from pydantic import Field

from hotseat.api.deps import FOR_ALL_MODELS, ApiDeps, Caller, Deps, FleetAdmin, Sender
from hotseat.api.disconnect import unless_gone
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import Forbidden, HostUnresponsive, NotInAFleet
from hotseat.fleet.other_hosts import in_path
from hotseat.fleet.placement import HELP
from hotseat.fleet.view import FleetConnection, HostState, Order
from hotseat.identifiers import ClientId

if TYPE_CHECKING:
    from hotseat.fleet.model_outlook import Outlook
    from hotseat.fleet.view import HostView
    from hotseat.identifiers import HostName, ModelName

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

CONFIG_DIGEST = (
    "Digest of the host's models as configured there, and of `fleet.secret`; equal if all of them are equal. "
    "8 hexadecimal digits."
)
CONNECTION = (
    "`disconnected`: NATS is unreachable or another host has the name of this one, "
    "so this host serves and forwards requests by its last known state."
)
DRAINED = (
    "The host gets no requests, except for models that are not ready on another host yet; "
    "its models are stopped as soon as they are idle."
)
ALONE: Responses = {409: {"model": Failure, "description": "This host is not in a fleet."}}
NO_HOST: Responses = {
    404: {
        "model": Failure,
        "description": "The name is invalid, or similar to that of a host of the fleet; "
        "or there is no order to revoke.",
    }
}
APART: Responses = {503: {"model": Failure, "description": "NATS is unreachable; nothing was changed."}}
ORDERS: Responses = {**ALONE, **NO_HOST, **APART}
MOVING: Responses = {
    404: {"model": Failure, "description": "The fleet has no such host or no such model."},
    409: {"model": Failure, "description": "This host is not in a fleet, or the target host may not load the model."},
    502: {
        "model": Failure,
        "description": "The model is ready on the target host, but the source host did not stop it.",
    },
    503: {
        "model": Failure,
        "description": "The model did not become ready on that host, or NATS is unreachable; nothing was stopped.",
    },
}
NOT_RESTARTED: Responses = {
    403: {"model": Failure, "description": "No API keys are configured, or the key may not restart hosts."},
    404: {"model": Failure, "description": "The fleet has no host with this name."},
    409: {"model": Failure, "description": "This host is not in a fleet, or it is restarting already."},
    502: {"model": Failure, "description": "The host did not answer; it may have restarted."},
    503: {
        "model": Failure,
        "description": "The host did not restart, is not back in the fleet or not with its models, or NATS is "
        "unreachable.",
    },
}
WITHOUT_KEYS = (
    "without API keys a host can only be restarted on its own machine, with `hotseat restart`; to do it from here,"
    " configure a key with the role admin"
)
AT_ONCE = 10
"""Hosts with all their models, in a slice."""
LONGEST = 10_000
"""Characters of a reason that are kept: a thousand hosts may give one."""


class Membership(Schema):
    host: Annotated[str, Field(description="Name of this host.")]
    connection: Annotated[FleetConnection, Field(description=CONNECTION)]


class FleetResident(Schema):
    model: str
    phase: str
    memory: Annotated[dict[str, int], Field(description="Bytes per device; empty: unknown, or no device has a budget.")]
    in_flight: int
    waiting: int
    oldest_wait_s: float
    pinned: bool
    phase_s: Annotated[float | None, Field(description="Seconds since its phase began; null: unknown.")]


class FleetDevice(Schema):
    device: str
    budget: int
    free: int


class FleetHost(Schema):
    """A host: its last published state, and how this host sees it."""

    host: str
    address: str
    version: str
    labels: dict[str, str]
    config_digest: Annotated[str, Field(description=CONFIG_DIGEST)]
    state: Annotated[
        HostState, Field(description="`unreachable`: it did not answer, so it gets no requests for a while.")
    ]
    problem: Annotated[str, Field(description="Why it is unreachable; empty: it is not, or the reason is unknown.")]
    last_seen_s: Annotated[float, Field(description="Seconds since its last message.")]
    cordoned: Annotated[bool, Field(description="No new models are placed on this host.")]
    drained: Annotated[bool, Field(description=DRAINED)]
    devices: Annotated[list[FleetDevice], Field(description="Devices with a budget, in bytes.")]
    residents: list[FleetResident]
    in_flight: int
    waiting: int
    missing_files: Annotated[
        dict[str, str],
        Field(description="Models that cannot be loaded there, and a file that each lacks."),
    ]
    certificate_ends: Annotated[
        float | None, Field(description="When its TLS certificate ends, in Unix time; null: unknown, or no TLS.")
    ]
    clock_ahead_s: Annotated[
        float | None, Field(description="Seconds that its clock is ahead of this host's; null: unknown.")
    ]


class FleetClaim(Schema):
    """A host chosen to load a model, before the load starts."""

    model: str
    host: str
    by: str
    reason: str


class BrokenPath(Schema):
    host: Annotated[str, Field(description="The host whose requests do not reach the other one.")]
    to: Annotated[str, Field(description="The other host.")]
    reason: str


class AbsentHost(Schema):
    """An absent host, and the orders that wait for it."""

    host: str
    cordoned: bool
    drained: bool


class Fleet(Membership):
    problem: Annotated[str, Field(description="Why this host is disconnected; empty while it is not.")]
    hosts: Annotated[list[FleetHost], Field(description="Sorted by name, including this host.")]
    claims: list[FleetClaim]
    broken_paths: Annotated[
        list[BrokenPath], Field(description="What each host last said about the others; at most 16 of each host.")
    ]
    absent: Annotated[list[AbsentHost], Field(description="Absent hosts that have pending orders.")]


class DefinedDifferently(Schema):
    """The keys of a model's definition that differ, with the values of both hosts. A command is a fingerprint."""

    definition: Annotated[str, Field(description="On the host that this is about.")]
    compared_with: Annotated[str, Field(description="Another host.")]
    other_definition: Annotated[str, Field(description="On that other host.")]


class ModelOnHost(Schema):
    host: str
    is_configured: Annotated[bool, Field(description="Does the host's configuration have the model?")]
    phase: Annotated[str | None, Field(description="null: the host does not have the model.")]
    why: Annotated[
        str, Field(description="Reason given by that host, or why it did not answer; empty: none was given.")
    ]
    last_error: Annotated[str, Field(description="Of its last failure there; empty: none.")]
    has_answered: Annotated[bool, Field(description="Did the host answer in time?")]
    obstacle: Annotated[
        str | None, Field(description="What prevents the host from loading or serving the model; null: nothing.")
    ]
    remedy: Annotated[str | None, Field(description="What to do about the obstacle.")]
    differs: Annotated[DefinedDifferently | None, Field(description="null: the definitions are the same.")]


class FleetModel(Schema):
    model: str
    hosts: Annotated[list[ModelOnHost], Field(description="All hosts, sorted by name.")]


@router.get(
    "",
    summary="The hosts of the fleet and their models, as known to this host",
    response_model=Fleet,
    responses=ALONE,
)
async def fleet(deps: Deps) -> Listing:
    view = fleet_admin_of(deps).view()
    state = Fleet(
        host=view.me,
        connection=view.connection,
        problem=view.problem,
        hosts=[],
        claims=[],
        broken_paths=[],
        absent=[],
    )
    claims = (FleetClaim(model=each.model, host=each.host, by=each.by, reason=each.reason) for each in view.claims)
    broken = (
        BrokenPath(host=seen.name, to=other, reason=why)
        for seen in view.hosts
        for other, why in sorted(seen.unreachable.items())
    )
    absent = (AbsentHost(host=each.name, **orders(each.orders)) for each in view.absent)
    pieces = page(
        state,
        hosts=rows(map(host, view.hosts)),
        claims=rows(claims),
        broken_paths=rows(broken),
        absent=rows(absent),
    )
    return Listing(pieces, size=AT_ONCE)


@router.put(
    "/hosts/{host}/cordon", summary="Stop placing new models on a host", responses=ORDERS, dependencies=[FOR_ALL_MODELS]
)
async def cordon(host: str, deps: Deps) -> Result:
    if not await fleet_admin_of(deps).give(host, Order.CORDON):
        return Result(message=f"{host} is not in the fleet now: it will be cordoned when it joins")
    return Result(message=f"{host} is cordoned: no new models are placed on it")


@router.delete(
    "/hosts/{host}/cordon",
    summary="Allow new models on a host again",
    responses=ORDERS,
    dependencies=[FOR_ALL_MODELS],
)
async def uncordon(host: str, deps: Deps) -> Result:
    await fleet_admin_of(deps).take_back(host, Order.CORDON)
    return Result(message=f"{host} is no longer cordoned")


@router.put(
    "/hosts/{host}/drain",
    summary="Load the models that a host uses on other hosts, and stop its own as they become idle",
    responses=ORDERS,
    dependencies=[FOR_ALL_MODELS],
)
async def drain(host: str, deps: Deps) -> Result:
    if not await fleet_admin_of(deps).give(host, Order.DRAIN):
        return Result(message=f"{host} is not in the fleet now: it will be drained when it joins")
    return Result(
        message=f"{host} is draining: models in use are loaded on other hosts first, and each stops when it is idle"
    )


@router.delete(
    "/hosts/{host}/drain", summary="End the drain of a host", responses=ORDERS, dependencies=[FOR_ALL_MODELS]
)
async def undrain(host: str, deps: Deps) -> Result:
    await fleet_admin_of(deps).take_back(host, Order.DRAIN)
    return Result(message=f"{host} is no longer drained")


@router.post(
    "/hosts/{host}/restart",
    summary="Restart a host; responds when it is back in the fleet with a new process and its models",
    responses=NOT_RESTARTED,
    dependencies=[FOR_ALL_MODELS],
)
async def restart_host(host: str, request: Request, deps: Deps, sender: Sender) -> Result:
    fleet_admin = fleet_admin_of(deps)
    if sender is None:
        raise Forbidden(WITHOUT_KEYS)
    if host == fleet_admin.name:
        return Result(message=f"process {await deps.restarts.restart()} has taken over on {host}")
    return Result(message=await unless_gone(request.receive, fleet_admin.restart(host, ClientId(sender))))


@router.post(
    "/models/{model:path}/move",
    summary="Load a model on a host, then stop it on its previous host; responds when both are done",
    responses=MOVING,
)
async def move(
    model: str, request: Request, deps: Deps, caller: Caller, to: Annotated[str, Query(description="The host's name.")]
) -> Result:
    fleet_admin = fleet_admin_of(deps)
    if caller is not None:
        caller.check_may_use(fleet_admin.resolve(model))
    return Result(message=await unless_gone(request.receive, fleet_admin.move(model, to)))


@router.get(
    "/models/{model:path}",
    summary="One model on all hosts of the fleet: its phase, the reason, and what prevents its load",
    response_model=FleetModel,
    responses={**ALONE, **UNKNOWN},
)
async def fleet_model(model: str, request: Request, deps: Deps) -> Listing:
    fleet_admin = fleet_admin_of(deps)
    name = fleet_admin.resolve(model)
    found = fleet_admin.outlooks(name)
    reports = await unless_gone(request.receive, all_reports(deps, fleet_admin, name, found))
    hosts = (on_host(each, reports.get(each.host)) for each in found)
    return Listing(page(FleetModel(model=name, hosts=[]), hosts=rows(hosts)))


def fleet_admin_of(deps: ApiDeps) -> FleetAdmin:
    fleet_admin = deps.fleet()
    if fleet_admin is None:
        raise NotInAFleet("this host is not in a fleet. Set `fleet` in its configuration to join one.")
    return fleet_admin


def host(seen: HostView) -> FleetHost:
    return FleetHost(
        host=seen.name,
        address=seen.address,
        version=seen.version,
        labels=dict(seen.labels),
        config_digest=seen.config_digest,
        state=seen.state,
        problem=seen.problem,
        last_seen_s=round(seen.last_seen_s, 3),
        **orders(seen.orders),
        devices=[FleetDevice(device=each.device, budget=each.budget, free=each.free) for each in seen.devices],
        residents=[
            FleetResident(
                model=each.model,
                phase=each.phase,
                memory={str(device): size for device, size in each.memory.items()},
                in_flight=each.in_flight,
                waiting=each.waiting,
                oldest_wait_s=each.oldest_wait_s,
                pinned=each.pinned,
                phase_s=each.phase_s,
            )
            for each in seen.residents
        ],
        in_flight=sum(each.in_flight for each in seen.residents),
        waiting=sum(each.waiting for each in seen.residents),
        missing_files={str(model): file for model, file in seen.missing_files.items()},
        certificate_ends=seen.certificate_ends,
        clock_ahead_s=seen.clock_ahead_s,
    )


def orders(given: frozenset[Order]) -> dict[str, Any]:
    return {"cordoned": Order.CORDON in given, "drained": Order.DRAIN in given}


class Report(Struct, frozen=True):
    """What is shown of a host's answer; the rest is skipped, which costs little whatever it contains."""

    phase: str
    why: str = ""
    last_error: str = ""


REPORT = Decoder(Report)


async def all_reports(
    deps: ApiDeps, fleet_admin: FleetAdmin, model: ModelName, found: list[Outlook]
) -> dict[HostName, Report | HostUnresponsive]:
    """What each host says about the model, or why it says nothing; without those that do not have it."""
    asked = [each.host for each in found if each.host != fleet_admin.name and (each.is_configured or each.phase)]
    reports = await fleet_admin.others.read_all(asked, f"/hotseat/models/{in_path(model)}?local=true", report_in)
    if model in deps.dispatcher.catalog.models:
        seen = deps.dispatcher.views.of(model)
        reports[fleet_admin.name] = Report(seen.phase.value, seen.why, seen.last_error)
    return reports


def report_in(answer: bytes) -> Report:
    """ValueError if it is none."""
    try:
        said = REPORT.decode(answer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return Report(said.phase, said.why[:LONGEST], said.last_error[:LONGEST])


def on_host(seen: Outlook, answer: Report | HostUnresponsive | None) -> ModelOnHost:
    problem = answer.message if isinstance(answer, HostUnresponsive) else ""
    report = answer if isinstance(answer, Report) else None
    return ModelOnHost(
        host=seen.host,
        is_configured=seen.is_configured,
        phase=report.phase if report else seen.phase,
        why=report.why if report else problem,
        last_error=report.last_error if report else "",
        has_answered=not problem,
        obstacle=seen.explanation or None,
        remedy=seen.obstacle and HELP[seen.obstacle],
        differs=difference(seen),
    )


def difference(seen: Outlook) -> DefinedDifferently | None:
    drift = seen.drift
    if drift is None:
        return None
    return DefinedDifferently(definition=drift.theirs, compared_with=seen.compared_with, other_definition=drift.ours)
