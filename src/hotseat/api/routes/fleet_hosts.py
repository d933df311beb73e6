"""Restarts a host of the fleet without unloading a model."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hotseat.api.deps import FOR_ALL_MODELS, Deps, Sender
from hotseat.api.disconnect import unless_gone
from hotseat.api.routes.fleet import fleet_admin_of
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure, Result
from hotseat.errors import Forbidden
from hotseat.identifiers import ClientId

router = APIRouter(prefix="/hotseat/fleet/hosts", tags=["fleet"])

REFUSALS: Responses = {
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


@router.post(
    "/{host}/restart",
    summary="Restart a host; responds when it is back in the fleet with a new process and its models",
    responses=REFUSALS,
    dependencies=[FOR_ALL_MODELS],
)
async def restart_host(host: str, request: Request, deps: Deps, sender: Sender) -> Result:
    fleet_admin = fleet_admin_of(deps)
    if sender is None:
        raise Forbidden(WITHOUT_KEYS)
    if host == fleet_admin.name:
        return Result(message=f"process {await deps.restarts.restart()} has taken over on {host}")
    return Result(message=await unless_gone(request.receive, fleet_admin.restart(host, ClientId(sender))))
