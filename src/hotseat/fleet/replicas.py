"""PURE: how many hosts should have a model, by how long its requests wait and how long it is unused.

No host is in charge: each decides for itself, and hosts that see the same state decide the same. A load needs a claim
(claims.py), so that two hosts that want the same load agree; all hosts agree on which replica is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from hotseat.fleet.load_cost import BUSY
from hotseat.fleet.member import READY
from hotseat.fleet.placement import Load, Means, load, obstacle_to_serving, replicas, rightful
from hotseat.fleet.roster import owner, rendezvous_score
from hotseat.scheduling.model_stats import UNKNOWN_LOAD_S

if TYPE_CHECKING:
    from hotseat.fleet.member import Member
    from hotseat.fleet.records import Residence
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import HostName, Instant, ModelName, Seconds

UNUSED = BUSY
"""Price limit of a replica for waiting requests: any models that are not in use."""
LONG_UNUSED = 1.0
"""Price limit of a replica without waiting requests: models unused for longer than their load time."""
UNUSED_LOADS = 10
"""A surplus replica stops once unused for this many times its load time."""
UNUSED_S: Seconds = 60.0
"""Minimum of that time."""


@dataclass(frozen=True, slots=True)
class Spare:
    """This host should stop its replica."""

    model: ModelName
    reason: str
    oldest_record_at: Instant = field(default=inf, compare=False)
    """When the oldest of the records arrived by which other hosts have the model."""


def one_more(model: ModelName, roster: Roster, now: Instant) -> Load | None:
    """Another replica, if waiting at every ready one takes longer than a load; for models with new requests."""
    ready, coming = replicas(model, roster, now)
    asleep = [member for _, member in coming if member.is_asleep(model)]
    # At most double the number at a time: ten replicas take four load times, not ten.
    if len(coming) - len(asleep) >= len(ready):
        return None
    wait_s = min(member.residents[model].oldest_wait_s for member in ready)
    load_s = max(load_s_of(member.residents[model]) for member in ready)
    if wait_s <= load_s:
        return None
    there = {member.name for member, _ in roster.hosts.residences(model)}
    count = len(there.union(member.name for _, member in coming))
    found = woken(model, asleep, count) if asleep else _added(model, count, roster, now)
    waits = f"its requests wait {wait_s:.0f} s on all {len(ready)} hosts that have it, loading takes {load_s:.0f} s"
    return found and replace(found, reason=f"{waits}; {found.reason}")


def woken(model: ModelName, asleep: list[Member], replica: int) -> Load:
    """A sleeping replica has its memory, or gets it back with the least effort."""
    first = min(member.name for member in asleep)
    return Load(model, first, replica, f"it sleeps on {first}")


def _added(model: ModelName, count: int, roster: Roster, now: Instant) -> Load | None:
    if count >= roster.catalog.most(model):
        return None
    found = load(model, roster, now, replica=count, means=Means(UNUSED, roster.catalog.kept))
    return found if isinstance(found, Load) else None


def to_keep(roster: Roster, now: Instant) -> list[Load]:
    """The loads this host should start to reach the minimum number of replicas; called periodically."""
    return [found for model, least in roster.catalog.kept.items() if (found := _kept(model, least, roster, now))]


def _kept(model: ModelName, least: int, roster: Roster, now: Instant) -> Load | None:
    ready, coming = replicas(model, roster, now)
    count = len(ready) + len(coming)
    if count >= least or roster.me != _guardian(model, roster, now):
        return None
    found = load(model, roster, now, replica=count, means=Means(LONG_UNUSED, roster.catalog.kept))
    if not isinstance(found, Load):
        return None
    return replace(found, reason=f"{least} replicas are required, {count} exist; {found.reason}")


def _guardian(model: ModelName, roster: Roster, now: Instant) -> HostName:
    """The host that maintains the minimum: the model's rendezvous owner among the hosts that seem alive."""
    living = [member.name for member in roster.hosts if not member.record.is_leaving and not member.is_shunned(now)]
    return owner(model, living or [roster.me])


def to_spare(roster: Roster, now: Instant) -> list[Spare]:
    """This host's unused surplus replicas; called periodically."""
    me = roster.hosts.get(roster.me)
    if me is None:
        return []
    return [spare for residence in me.residents.values() if (spare := _spared(me, residence, roster, now))]


def _spared(me: Member, residence: Residence, roster: Roster, now: Instant) -> Spare | None:
    model = residence.model
    if residence.pinned or not is_unused(me, residence, now):
        return None
    ready = [
        (member, there)
        for member, there in roster.hosts.residences(model)
        if there.phase == READY and not obstacle_to_serving(roster, member, roster.offer(member, model), now)
    ]
    unused = [member for member, there in ready if is_unused(member, there, now)]
    least = max(1, roster.catalog.kept.get(model, 0))
    # All hosts agree on who stops first, so two never stop at once because each saw itself as the surplus one.
    if (
        len(ready) <= least
        or min(unused, key=lambda member: rendezvous_score(model, member.name), default=None) is not me
    ):
        return None
    unused_s = me.unused_s(residence, now)
    return Spare(
        model, f"unused for {unused_s:.0f} s here, and ready on {len(ready)} hosts although {least} would be enough"
    )


def too_many(roster: Roster, now: Instant) -> list[Spare]:
    """This host's unused replicas beyond the maximum: disconnected hosts loaded what others already had. A model that
    was just moved may be among them briefly."""
    me = roster.hosts.get(roster.me)
    if me is None:
        return []
    return [spare for residence in me.residents.values() if (spare := _exceeds_memory(me, residence, roster, now))]


def _exceeds_memory(me: Member, residence: Residence, roster: Roster, now: Instant) -> Spare | None:
    model = residence.model
    if residence.pinned or residence.phase != READY or me.load(model):
        return None
    ready, _ = replicas(model, roster, now)
    staying = rightful(model, ready, roster)
    if me not in ready or me in staying:
        return None
    reason = f"ready on {len(ready)} hosts, but at most {roster.catalog.most(model)} may have it"
    return Spare(model, reason, min(member.received_at for member in staying))


def is_unused(member: Member, residence: Residence, now: Instant) -> bool:
    if residence.phase != READY or member.load(residence.model):
        return False
    return member.unused_s(residence, now) >= max(UNUSED_S, UNUSED_LOADS * load_s_of(residence))


def load_s_of(residence: Residence) -> Seconds:
    return residence.load_s or UNKNOWN_LOAD_S
