"""The fleet: its hosts, their models, and operators' orders for hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request

from hotseat.api.deps import FOR_ALL_MODELS, ApiDeps, Caller, Deps, FleetAdmin
from hotseat.api.disconnect import unless_gone
from hotseat.api.fleet_schemas import AbsentHost, BrokenPath, Fleet, FleetClaim, FleetDevice, FleetHost, FleetResident
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure, Result
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import NotInAFleet
from hotseat.fleet.view import Order

if TYPE_CHECKING:
    from hotseat.fleet.view import HostView

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

ALONE: Responses = {409: {"model": Failure, "description": "This host is not in a fleet."}}
UNKNOWN: Responses = {
    404: {
        "model": Failure,
        "description": "The name is invalid, or similar to that of a host of the fleet; "
        "or there is no order to revoke.",
    }
}
APART: Responses = {503: {"model": Failure, "description": "NATS is unreachable; nothing was changed."}}
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
AT_ONCE = 10
"""Hosts with all their models, in a slice."""
ORDERS: Responses = {**ALONE, **UNKNOWN, **APART}


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
    "/models/{model:path}/move",
    summary="Load a model on a host, then stop it on its previous host; responds when both are done",
    responses=MOVING,
)
async def move(
    model: str, request: Request, deps: Deps, caller: Caller, to: Annotated[str, Query(description="The host's name.")]
) -> Result:
    if caller is not None:
        caller.check_may_use(model)
    return Result(message=await unless_gone(request.receive, fleet_admin_of(deps).move(model, to)))


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
