"""GET /hotseat/models/{name}/estimate: the estimated memory of a model, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter

from hotseat.api.deps import Deps
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schemas import Error, Estimate, EstimateLine, Failure
from hotseat.estimates.report import Where

if TYPE_CHECKING:
    from hotseat.estimates import report

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

CANNOT: Responses = {
    400: {"model": Error, "description": "The path is invalid."},
    422: {"model": Failure, "description": "Its files or its command line do not say enough."},
}


@router.get(
    "/models/{name:path}/estimate",
    summary="The estimated memory of a model, line by line",
    responses={**UNKNOWN, **CANNOT},
)
async def estimate(name: str, deps: Deps) -> Estimate:
    found = await deps.estimate(deps.dispatcher.catalog.resolve(name))
    return Estimate(
        lines=[line(each) for each in found.lines],
        needed={where.value: found.needed(where) for where in Where},
        device_share=found.device_share,
        notes=list(found.notes),
    )


def line(part: report.Line) -> EstimateLine:
    return EstimateLine(
        what=part.what,
        bytes=part.size,
        kind=part.kind.value,
        where=part.where.value,
        backing=part.backing.value,
    )
