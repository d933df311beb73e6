"""Unloads models while an operator needs their memory for something else."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from hotseat.api.dependencies import FOR_ALL_MODELS, Here
from hotseat.api.schemas import Failure, Result
from hotseat.errors import UnknownDevice, did_you_mean
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place

router = APIRouter(prefix="/hotseat/yield", tags=["hotseat"], dependencies=[FOR_ALL_MODELS])

UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": Failure, "description": "No device of that name has a budget."}
}
BECAUSE = "an operator needs the memory"


@router.post("", summary="Let all models make way; requests get 503 until they may come back", responses=UNKNOWN)
async def make_way(
    here: Here, device: Annotated[str | None, Query(description="Only models on this device.")] = None
) -> Result:
    if device is None:
        here.precedence.make_way(BECAUSE)
        return Result(message="all models make way")
    known = here.dispatcher.catalog.budgets
    place = Place(LOCAL_HOST, DeviceName(device))
    if place not in known:
        raise UnknownDevice(f'no device called "{device}" has a budget.{did_you_mean(device, map(str, known))}')
    here.precedence.make_way(f"{BECAUSE} of {device}", frozenset({place}))
    return Result(message=f"the models on {device} make way")


@router.delete("", summary="Let models come back")
async def resume(here: Here) -> Result:
    still = here.precedence.resume()
    return Result(message=f"models still make way: {still}" if still else "models may come back")
