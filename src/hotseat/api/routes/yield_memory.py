"""Unloads models while an operator needs their memory for something else."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from hotseat.api.deps import FOR_ALL_MODELS, Deps
from hotseat.api.schema_base import Failure, Result
from hotseat.errors import UnknownDevice, did_you_mean
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place

router = APIRouter(prefix="/hotseat/yield", tags=["hotseat"], dependencies=[FOR_ALL_MODELS])

UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": Failure, "description": "No device with that name has a budget."}
}
REASON = "an operator needs the memory"


@router.post("", summary="Unload all models to free memory; requests get 503 until the yield ends", responses=UNKNOWN)
async def yield_memory(
    deps: Deps, device: Annotated[str | None, Query(description="Only models on this device.")] = None
) -> Result:
    if device is None:
        deps.precedence.yield_memory(REASON)
        return Result(message="all models are being unloaded")
    known = deps.dispatcher.catalog.budgets
    place = Place(LOCAL_HOST, DeviceName(device))
    if place not in known:
        raise UnknownDevice(f'no device called "{device}" has a budget.{did_you_mean(device, map(str, known))}')
    deps.precedence.yield_memory(f"{REASON} of {device}", frozenset({place}))
    return Result(message=f"the models on {device} are being unloaded")


@router.delete("", summary="End the yield: models may load again")
async def resume(deps: Deps) -> Result:
    still = deps.precedence.resume()
    return Result(message=f"memory is still yielded: {still}" if still else "models may load again")
