"""PURE: what it costs to load a model on a host, as seen from outside.

The prices are the scheduler's (scheduling/eviction.py): a model in use costs more than any number of unused ones, and
an unused one what its loading takes over how soon it is probably used again. The gaps between its uses are known on
its host alone; without them the guess is the scheduler's too: unused as long again. So what is chosen here is where
it probably costs least. Who really leaves is decided there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.fleet.member import COMING, LEAVING
from hotseat.scheduling import eviction
from hotseat.scheduling.eviction import cheapest, cost, price_in_use, price_unused
from hotseat.scheduling.habits import UNKNOWN_LOAD_S
from hotseat.scheduling.linger import next_use_s
from hotseat.terms import Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostRecord, Offer, Residence
    from hotseat.fleet.roster import Roster
    from hotseat.terms import Bytes, DeviceName, Instant, ModelName, Seconds

LOOKS_AHEAD_S: Seconds = 10.0
TAKES_NO_ROOM = ("cold", "resting")


class Clearing(NamedTuple):
    """Room for a model on a host, and who probably leaves for it."""

    price: float
    leave: tuple[Residence, ...]


def fits(record: HostRecord, offer: Offer) -> bool:
    """Would the model fit if nothing else were there?"""
    return all(
        device in record.devices and bytes_ <= record.devices[device].budget
        for device, bytes_ in needs(record, offer).items()
    )


def needs(record: HostRecord, offer: Offer) -> Mapping[DeviceName, Bytes]:
    """Without budgets nothing is counted; without a figure it is the whole first device."""
    if not record.devices:
        return {}
    if offer.memory:
        return offer.memory
    first = next(iter(record.devices))
    return {first: record.devices[first].budget}


def clearing(
    roster: Roster, member: Member, model: ModelName, offer: Offer, now: Instant, sparing: Collection[ModelName] = ()
) -> Clearing | None:
    """What room for the model costs there, where none is free; None: it cannot be made."""
    due = promised(roster, member, model, now)
    if not member.record.devices:
        return _one_at_a_time(member, due, now, sparing)
    missing = lacks(member.record, offer, due)
    given = cheapest(_offers(member, missing, now, sparing), missing)
    return None if given is None else Clearing(cost(given), tuple(each.model for each in given))


def has_free_room(roster: Roster, member: Member, model: ModelName, offer: Offer, now: Instant) -> bool:
    due = promised(roster, member, model, now)
    if not member.record.devices:
        return not due and not any(residence.phase not in TAKES_NO_ROOM for residence in member.residents.values())
    return not lacks(member.record, offer, due)


def promised(roster: Roster, member: Member, model: ModelName, now: Instant) -> list[Offer]:
    """Others that are about to be loaded there: claimed, or waited for without a process yet."""
    names = {held.claim.model: None for held in roster.claimed_on(member.name, now)}
    names |= {name: None for name, residence in member.residents.items() if residence.phase == "cold"}
    coming = (name for name in names if name != model and not _has_process(member, name))
    return [offer for name in coming if (offer := roster.offer(member, name))]


def _has_process(member: Member, name: ModelName) -> bool:
    residence = member.residents.get(name)
    return residence is not None and residence.phase not in TAKES_NO_ROOM


def lacks(record: HostRecord, offer: Offer, due: Iterable[Offer]) -> dict[Place, Bytes]:
    """How much memory is missing, and where."""
    wanted = needs(record, offer)
    missing = {device: bytes_ - record.devices[device].free for device, bytes_ in wanted.items()}
    for other in due:
        for device, bytes_ in needs(record, other).items():
            if device in missing:
                missing[device] += bytes_
    return {Place(record.name, device): lack for device, lack in missing.items() if lack > 0}


def _one_at_a_time(member: Member, due: list[Offer], now: Instant, sparing: Collection[ModelName]) -> Clearing | None:
    there = [residence for residence in member.residents.values() if residence.phase not in TAKES_NO_ROOM]
    if any(residence.pinned or residence.model in sparing for residence in there):
        return None
    waited_for = price_in_use(len(due)) if due else 0.0
    return Clearing(waited_for + sum(price(member, residence, now) for residence in there), tuple(there))


def _offers(
    member: Member, missing: Mapping[Place, Bytes], now: Instant, sparing: Collection[ModelName]
) -> Iterable[eviction.Offer[Residence]]:
    for residence in member.residents.values():
        stays = residence.pinned or residence.model in sparing
        if not stays and residence.phase not in TAKES_NO_ROOM:
            room = {place: bytes_ for place in missing if (bytes_ := residence.memory.get(place.device, 0))}
            yield eviction.Offer(price(member, residence, now), residence.model, residence, room)


def price(member: Member, residence: Residence, now: Instant) -> float:
    """Of one resident. What is on its way out costs nothing more."""
    if residence.phase in LEAVING:
        return 0.0
    users = member.load(residence.model)
    if users or residence.phase in COMING:
        return price_in_use(users)
    return price_unused(residence.load_s or UNKNOWN_LOAD_S, next_use_s((), member.unused_s(residence, now)))


def least_price(member: Member, now: Instant) -> float:
    """No room that must be made there costs less: most hosts need no closer look.

    Prices fall while models stay unused, so it is reckoned for a while ahead and kept for that long.
    """
    if now > member.least_price_until:
        member.least_price_until = then = now + LOOKS_AHEAD_S
        member.least_price = min(
            (price(member, residence, then) for residence in member.residents.values() if not residence.pinned),
            default=0.0,
        )
    return member.least_price
