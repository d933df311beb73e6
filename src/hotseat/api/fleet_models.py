"""A model's state across the fleet, as reported by the hosts that have it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hotseat.api.model_schemas import ModelDetails, OtherHost
from hotseat.errors import HostUnresponsive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.api.deps import FleetAdmin
    from hotseat.fleet.view import Sighting
    from hotseat.identifiers import ModelName

AT_ONCE = 32
"""Hosts that are asked, and so many answers of 256 KiB in memory."""
LONGEST = 1000
"""Characters of a reason that are shown: a thousand hosts may give one, in a response that is made at once."""
BEST_FIRST = ("ready", "loading", "waking")


async def other_hosts(fleet_admin: FleetAdmin, model: ModelName) -> list[OtherHost]:
    """Many hosts are asked at once, so that silent ones cost one short wait."""
    return await _states(fleet_admin, fleet_admin.sightings(model), model)


async def _states(fleet_admin: FleetAdmin, sightings: Sequence[Sighting], model: ModelName) -> list[OtherHost]:
    places = asyncio.Semaphore(AT_ONCE)

    async def state_at(seen: Sighting) -> OtherHost:
        async with places:
            try:
                why = str((await fleet_admin.model_details(seen.host, model)).get("why", ""))
            except HostUnresponsive as problem:
                why = problem.message
        return OtherHost(host=seen.host, phase=seen.phase, why=why[:LONGEST])

    return await asyncio.gather(*map(state_at, sightings))


async def details_from_fleet(fleet_admin: FleetAdmin, model: ModelName) -> ModelDetails:
    """For a model that only other hosts have: the report of a host that holds it, or else of one that may run it."""
    seen = sorted(fleet_admin.sightings(model), key=_rank)
    host = seen[0].host if seen else next(iter(fleet_admin.offering(model)), None)
    if host is None:
        raise HostUnresponsive(f"{model} belongs to other hosts, and none of them is available")
    phase = seen[0].phase if seen else "not loaded"
    try:
        details = ModelDetails.model_validate(await fleet_admin.model_details(host, model))
    except ValidationError:
        raise HostUnresponsive(f"{model} is {phase} on {host}, which gave no reason") from None
    except HostUnresponsive as problem:
        raise HostUnresponsive(f"{model} is {phase} on {host}; {problem.message[:LONGEST]}") from None
    return details.model_copy(update={"host": host, "other_hosts": await _states(fleet_admin, seen[1:], model)})


def _rank(seen: Sighting) -> tuple[int, str]:
    return (BEST_FIRST.index(seen.phase) if seen.phase in BEST_FIRST else len(BEST_FIRST), seen.host)
