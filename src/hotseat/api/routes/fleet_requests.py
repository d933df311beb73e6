"""Requests in progress on all hosts of the fleet."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hotseat.api.deps import Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.fleet_requests import each_once, reader
from hotseat.api.fleet_schemas import FleetRequests
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.requests import in_progress
from hotseat.api.slices import Listing, page, rows, taken
from hotseat.errors import HostUnresponsive

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

WITHOUT_FINISHED = f"/hotseat/requests?after={2**53}"
"""No host has numbered that many finished requests."""


@router.get(
    "/requests",
    summary="Requests in progress on all hosts of the fleet",
    response_model=FleetRequests,
    responses=ALONE,
)
async def fleet_requests(request: Request, deps: Deps) -> Listing:
    fleet_admin = fleet_admin_of(deps)
    others = fleet_admin.others
    names = others.names()
    reports = await unless_gone(request.receive, others.read_all(names, WITHOUT_FINISHED, reader(len(names))))
    here = await taken(in_progress(each) for each in deps.in_progress())
    known = {str(host): report for host, report in reports.items() if not isinstance(report, HostUnresponsive)}
    problems = {str(host): str(report) for host, report in reports.items() if isinstance(report, HostUnresponsive)}
    found = await each_once({fleet_admin.name: here, **known})
    return Listing(page(FleetRequests(in_progress=[], silent=[*problems], problems=problems), in_progress=rows(found)))
