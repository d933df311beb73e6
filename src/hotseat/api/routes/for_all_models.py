"""What affects all models at once, and so needs a key for all of them: a restart, a yield of memory, a profile.

A restart unloads no model. Models yield while an operator needs their memory for something else. Profiles redirect
names to other models; one may be active, and activating one affects no running model.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from hotseat.api.deps import FOR_ALL_MODELS, Deps, FromHost, Sender
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.errors import Forbidden, UnknownDevice, UnknownProfile, did_you_mean
from hotseat.identifiers import LOCAL_HOST, DeviceName, Place
from hotseat.scheduling.events import ProfileChanged

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

NOT_RESTARTED: Responses = {
    403: {"model": Failure, "description": "No API keys are configured, or the key may not restart hotseat."},
    409: {"model": Failure, "description": "A restart is in progress."},
    503: {"model": Failure, "description": "The new process could not take over; the old one continues."},
}
NEEDS_A_KEY = (
    "without API keys hotseat can only be restarted on its own machine, with `hotseat restart`; to do it from here,"
    " configure a key with the role admin"
)
NO_DEVICE: dict[int | str, dict[str, Any]] = {
    404: {"model": Failure, "description": "No device with that name has a budget."}
}
REASON = "an operator needs the memory"
NO_PROFILE: dict[int | str, dict[str, Any]] = {
    404: {"model": Failure, "description": "The profile is not defined in the configuration."}
}


class RestartState(Schema):
    pid: int
    started_at: Annotated[float, Field(description="Wall-clock time.")]
    is_in_progress: bool
    attempts: Annotated[int, Field(description="Since this process started.")]
    problem: Annotated[str, Field(description="Why the last attempt failed; empty if it did not.")]


@router.post(
    "/restart",
    summary="Replace the process by the installed program; models keep running",
    responses=NOT_RESTARTED,
    dependencies=[FOR_ALL_MODELS],
)
async def restart(deps: Deps, sender: Sender, from_host: FromHost) -> Result:
    if sender is None and from_host is None:
        raise Forbidden(NEEDS_A_KEY)
    pid = await deps.restarts.restart()
    return Result(message=f"process {pid} has taken over")


@router.get("/restart", summary="The process that serves, and how its last attempt to restart went")
async def state(deps: Deps) -> RestartState:
    restarts = deps.restarts
    return RestartState(
        pid=restarts.serving_pid,
        started_at=deps.started_at,
        is_in_progress=restarts.is_in_progress,
        attempts=restarts.attempts,
        problem=restarts.problem,
    )


@router.post(
    "/yield",
    summary="Unload all models to free memory; requests get 503 until the yield ends",
    responses=NO_DEVICE,
    dependencies=[FOR_ALL_MODELS],
)
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


@router.delete("/yield", summary="End the yield: models may load again", dependencies=[FOR_ALL_MODELS])
async def resume(deps: Deps) -> Result:
    still = deps.precedence.resume()
    return Result(message=f"memory is still yielded: {still}" if still else "models may load again")


class ProfileEntry(Schema):
    name: str
    description: str
    pins: Annotated[dict[str, str], Field(description="Maps names to names; an empty target disables the name.")]


class Profiles(Schema):
    active: str | None
    profiles: list[ProfileEntry]


@router.get("/profiles", summary="The configured profiles and which one is active")
async def profiles(deps: Deps) -> Profiles:
    catalog = deps.dispatcher.catalog
    entries = [
        ProfileEntry(name=name, description=profile.description, pins=dict(profile.pins))
        for name, profile in catalog.profiles.items()
    ]
    return Profiles(active=catalog.active_profile, profiles=entries)


@router.delete("/profiles", summary="Deactivate the active profile", dependencies=[FOR_ALL_MODELS])
async def deactivate(deps: Deps) -> Result:
    deps.dispatcher.tell(ProfileChanged(None))
    return Result(message="no profile is active")


@router.post(
    "/profiles/{name:path}",
    summary="Activate a profile; it stays active after a reload",
    responses=NO_PROFILE,
    dependencies=[FOR_ALL_MODELS],
)
async def activate(name: str, deps: Deps) -> Result:
    known = deps.dispatcher.catalog.profiles
    if name not in known:
        raise UnknownProfile(f'profile "{name}" is not defined in the configuration.{did_you_mean(name, known)}')
    deps.dispatcher.tell(ProfileChanged(name))  # the catalog holds the names, so every lookup sees it at once
    return Result(message=f"profile {name} is active")
