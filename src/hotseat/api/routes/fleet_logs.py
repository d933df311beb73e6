"""The output of a model's server, or a host's own log, wherever in the fleet it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from hotseat.api.deps import ApiDeps, Deps
from hotseat.api.disconnect import LiveStream, listening, unless_gone
from hotseat.api.fleet_logs import LEAST_LINES, MOST_LINES, FleetLog
from hotseat.api.routes.events import HEARTBEAT, HEARTBEAT_S
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.logs import LOGS, event, page
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure
from hotseat.errors import ClientError, UnknownHost, UnknownModel, did_you_mean
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hotseat.api.deps import FleetAdmin
    from hotseat.identifiers import ModelName

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

MOST_FOLLOWED = 32
"""Hosts whose logs one client follows: each keeps a connection open."""
LINES = (
    "The number of most recent lines. "
    f"Each host is asked for {MOST_LINES:,} divided by the number of hosts at most, but for {LEAST_LINES} in any case."
)
UNKNOWN: Responses = {404: {"model": Failure, "description": "The fleet has no such model or no such host."}}


@router.get(
    "/logs",
    summary="Output of a model's server, or a host's own log, wherever in the fleet it is",
    response_class=Response,
    responses={**LOGS, **UNKNOWN, **ALONE},
)
async def fleet_logs(
    request: Request,
    deps: Deps,
    model: Annotated[str | None, Query(description="The output of this model, on the hosts that have it.")] = None,
    host: Annotated[str | None, Query(description="Only of this host; without `model`, its own log.")] = None,
    lines: Annotated[int, Query(ge=0, le=10_000, description=LINES)] = 100,
    follow: Annotated[bool, Query(description="Follow new lines as server-sent events, in JSON.")] = False,
    in_json: Annotated[bool, Query(alias="json", description="One JSON object per line instead of text.")] = False,
) -> Response:
    log = chosen(deps, model, host)
    if follow:
        check_few(log)
        return LiveStream(feed_of(log, lines))
    return page(await unless_gone(request.receive, log.newest(lines)), in_json=in_json)


def chosen(deps: ApiDeps, model: str | None, host: str | None) -> FleetLog:
    fleet_admin = fleet_admin_of(deps)
    if model is not None:
        name = fleet_admin.resolve(model)
        return log_of(deps, fleet_admin, hosts_with(fleet_admin, name, host), name)
    if host is None:
        raise ClientError("say whose log you want: send `model`, `host` or both")
    return log_of(deps, fleet_admin, [known_host(fleet_admin, host)], None)


def log_of(deps: ApiDeps, fleet_admin: FleetAdmin, hosts: Sequence[HostName], model: ModelName | None) -> FleetLog:
    me = fleet_admin.name
    here = deps.logs.own if model is None else deps.logs.of_model(model)
    others = [each for each in hosts if each != me]
    return FleetLog(fleet_admin.others, others, model, here if me in hosts else None, me)


def hosts_with(fleet_admin: FleetAdmin, model: ModelName, host: str | None) -> list[HostName]:
    """Those that have it now, or else those that may have had it: a failed start is worth reading."""
    found = [each for each in fleet_admin.outlooks(model) if each.phase or each.is_configured]
    if host is None:
        return [each.host for each in found if each.phase] or [each.host for each in found]
    name = known_host(fleet_admin, host)
    if name not in [each.host for each in found]:
        raise UnknownModel(f"{name} does not have {model} in its configuration")
    return [name]


def known_host(fleet_admin: FleetAdmin, host: str) -> HostName:
    names = [fleet_admin.name, *fleet_admin.others.names()]
    if host not in names:
        raise UnknownHost(f'the fleet has no host named "{host}".{did_you_mean(host, names)}')
    return HostName(host)


def check_few(log: FleetLog) -> None:
    if len(log.hosts) > MOST_FOLLOWED:
        many = f"{len(log.hosts)} hosts have {log.model}"
        raise ClientError(f"{many}, and the logs of at most {MOST_FOLLOWED} can be followed at once: send `host` too")


async def feed_of(log: FleetLog, lines: int) -> AsyncGenerator[str, None]:
    async with listening(log.feeds(lines), HEARTBEAT_S) as coming:
        async for line in coming:
            yield HEARTBEAT if line is None else event(line)
