"""Profiles redirect names to other models. One may be active; activating one affects no running model."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import FOR_ALL_MODELS, Deps
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.errors import UnknownProfile, did_you_mean
from hotseat.scheduling.events import ProfileChanged

router = APIRouter(prefix="/hotseat/profiles", tags=["hotseat"])

UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": Failure, "description": "The profile is not defined in the configuration."}
}


class ProfileEntry(Schema):
    name: str
    description: str
    pins: Annotated[dict[str, str], Field(description="Maps names to names; an empty target disables the name.")]


class Profiles(Schema):
    active: str | None
    profiles: list[ProfileEntry]


@router.get("", summary="The configured profiles and which one is active")
async def profiles(deps: Deps) -> Profiles:
    catalog = deps.dispatcher.catalog
    entries = [
        ProfileEntry(name=name, description=profile.description, pins=dict(profile.pins))
        for name, profile in catalog.profiles.items()
    ]
    return Profiles(active=catalog.active_profile, profiles=entries)


@router.delete("", summary="Deactivate the active profile", dependencies=[FOR_ALL_MODELS])
async def deactivate(deps: Deps) -> Result:
    deps.dispatcher.tell(ProfileChanged(None))
    return Result(message="no profile is active")


@router.post(
    "/{name:path}",
    summary="Activate a profile; it stays active after a reload",
    responses=UNKNOWN,
    dependencies=[FOR_ALL_MODELS],
)
async def activate(name: str, deps: Deps) -> Result:
    known = deps.dispatcher.catalog.profiles
    if name not in known:
        raise UnknownProfile(f'profile "{name}" is not defined in the configuration.{did_you_mean(name, known)}')
    deps.dispatcher.tell(ProfileChanged(name))  # the catalog holds the names, so every lookup sees it at once
    return Result(message=f"profile {name} is active")
