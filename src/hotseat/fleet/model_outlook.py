"""What each host of the fleet can do for a model: serve it, load it, or why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.fleet.drift import Drift, drifts
from hotseat.fleet.load_cost import clearing, has_free_memory, promised
from hotseat.fleet.placement import (
    Obstacle,
    in_words,
    is_guess,
    obstacle_to_clearing,
    obstacle_to_loading,
    obstacle_to_serving,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.fleet.member import Member
    from hotseat.fleet.records import Offer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import HostName, Instant, ModelName


@dataclass(frozen=True, slots=True)
class Outlook:
    """A model on one host, as another host knows it."""

    host: HostName
    phase: str | None
    """None: its record does not list the model."""
    is_configured: bool
    obstacle: Obstacle | None
    """What prevents requests from being served there, or the model from being loaded there."""
    explanation: str
    """What the host is then, with what the model needs there."""
    drift: Drift | None
    """How its definition there differs from that of the host `compared_with`."""
    compared_with: HostName


def outlooks(roster: Roster, model: ModelName, now: Instant) -> list[Outlook]:
    """All hosts, by name."""
    members = sorted(roster.hosts, key=lambda member: member.name)
    compared = _compared_with(roster, members, model)
    return [_outlook(roster, member, model, compared, now) for member in members]


def _compared_with(roster: Roster, members: Sequence[Member], model: ModelName) -> tuple[HostName, Offer | None]:
    """This host's definition, or else that of the first host that has one."""
    for member in sorted(members, key=lambda member: member.name != roster.me):
        if offer := roster.offer(member, model):
            return member.name, offer
    return roster.me, None


def _outlook(
    roster: Roster, member: Member, model: ModelName, compared: tuple[HostName, Offer | None], now: Instant
) -> Outlook:
    offer, residence = roster.offer(member, model), member.residents.get(model)
    obstacle = _obstacle(roster, member, model, offer, now) if offer else None
    name, other = compared
    differing = drifts({model: other}, {model: offer}) if offer and other else iter(())
    return Outlook(
        host=member.name,
        phase=residence.phase if residence else None,
        is_configured=offer is not None,
        obstacle=obstacle,
        explanation=in_words(obstacle, model, roster, [member]) if obstacle else "",
        drift=next(differing, None),
        compared_with=name,
    )


def _obstacle(roster: Roster, member: Member, model: ModelName, offer: Offer, now: Instant) -> Obstacle | None:
    if member.has(model):
        return obstacle_to_serving(roster, member, offer, now)
    obstacle, due = obstacle_to_loading(model, roster, member, offer, now), promised(roster, member, model, now)
    if not obstacle and not has_free_memory(member, offer, due) and clearing(member, offer, due, now, ()) is None:
        obstacle = obstacle_to_clearing(member, offer)
    return None if obstacle and is_guess(obstacle, offer) else obstacle
