"""GET /hotseat/models/{name}/estimate: the estimated memory of a model, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schema_base import Error, Failure, Schema
from hotseat.estimates.report import Where

if TYPE_CHECKING:
    from hotseat.estimates import report

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

CANNOT: Responses = {
    400: {"model": Error, "description": "The path is invalid."},
    422: {"model": Failure, "description": "Its files or its command line do not say enough."},
}


class EstimateLine(Schema):
    """A part of a model's memory."""

    what: str
    bytes: int
    kind: Literal["weights", "kv", "compute", "mmproj", "draft", "overhead"]
    where: Literal["device", "host"]
    backing: Annotated[
        Literal["anonymous", "mapped", "read once"],
        Field(description="`mapped`: pages of a file. `read once`: the same, needed only while loading."),
    ]


class Estimate(Schema):
    """As printed by `hotseat estimate --json`."""

    lines: list[EstimateLine]
    needed: Annotated[dict[str, int], Field(description="Bytes on the `device` and on the `host`.")]
    device_share: Annotated[
        float | None, Field(description="Share of each device that the server takes regardless; null: what it needs.")
    ]
    notes: Annotated[list[str], Field(description="What the estimate does not cover.")]


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
