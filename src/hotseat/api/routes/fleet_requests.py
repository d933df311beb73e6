"""Requests in progress on all hosts of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import ValidationError

from hotseat.api.deps import Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.fleet_requests import each_once
from hotseat.api.fleet_schemas import FleetRequests
from hotseat.api.request_schemas import Requests
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.requests import in_progress
from hotseat.api.slices import Listing, page, rows, taken

if TYPE_CHECKING:
    from hotseat.api.request_schemas import RequestInProgress

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
    answers = await unless_gone(request.receive, others.read_all(others.names(), WITHOUT_FINISHED))
    # A slice for each host, which may report many requests.
    reports = dict(await taken(((str(host), reported(answer)) for host, answer in answers.items()), 1))
    here = await taken(in_progress(each) for each in deps.in_progress())
    known = {host: report for host, report in reports.items() if report is not None}
    silent = [host for host, report in reports.items() if report is None]
    found = await each_once({fleet_admin.name: here, **known})
    return Listing(page(FleetRequests(in_progress=[], silent=silent), in_progress=rows(found)))


def reported(answer: bytes | None) -> list[RequestInProgress] | None:
    """None: the host did not answer, or not in a way that this version understands."""
    try:
        return None if answer is None else Requests.model_validate_json(answer).in_progress
    except ValidationError:
        return None
