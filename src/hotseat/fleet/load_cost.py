"""PURE: the cost of loading a model on a host, as seen from another host.

A model in use costs more than any number of unused ones; an unused one costs its load time over the expected time until
its next use. The models that leave are chosen as the scheduler does it (scheduling/eviction.py). Only its own host
knows the gaps between its uses; others assume, as the scheduler does without data, that it stays unused as long again.
So this estimates where a load is cheapest; the host itself decides which model leaves.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from hotseat.fleet.member import ASLEEP, BACKOFF, COLD, LEAVING, LOADING
from hotseat.fleet.records import DeviceBudget
from hotseat.identifiers import ANY_GPU, RAM, Place
from hotseat.scheduling import eviction
from hotseat.scheduling.eviction import cheapest, total
from hotseat.scheduling.loss import next_use_s
from hotseat.scheduling.model_stats import UNKNOWN_LOAD_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostRecord, Offer, Residence
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Bytes, DeviceName, Instant, ModelName, Seconds

TAKES_NO_MEMORY = (COLD, BACKOFF)
NEVER_ENOUGH = float("inf")
BUSY = 1e6
"""More than the total price of any number of unused models."""
LADDERS_KEEP_S: Seconds = 5.0
"""Prices change slowly, and are used only to preselect hosts."""


class Clearing(NamedTuple):
    """Memory for a model on a host, and the models that would probably leave."""

    price: float
    leave: tuple[Residence, ...]


def fits(record: HostRecord, offer: Offer) -> bool:
    """Would the model fit on an empty host?"""
    devices = record.devices
    for device, bytes_ in needs(record, offer).items():
        if device not in devices or bytes_ > devices[device].budget:
            return False
    return True


def fits_beside_pinned(member: Member, offer: Offer) -> bool:
    """Would the model fit there if only the pinned models were left, and no other program used memory?"""
    pinned = [residence.memory for residence in _with_process(member) if residence.pinned]
    devices = {
        device: DeviceBudget(has.budget, has.budget - sum(memory.get(device, 0) for memory in pinned))
        for device, has in member.record.devices.items()
    }
    emptied = replace(member.record, devices=devices)
    return bool(devices) and fits(emptied, offer) and not lacks(emptied, offer, ())


def needs(record: HostRecord, offer: Offer) -> Mapping[DeviceName, Bytes]:
    """Nothing without budgets; the whole first device without an estimate."""
    if not record.devices:
        return {}
    if ANY_GPU.device in offer.memory:
        return _on_emptiest_cards(record, offer)
    if offer.memory:
        return offer.memory
    whole = _emptiest_cards(record, offer)[: offer.gpus] if offer.gpus else [next(iter(record.devices))]
    return {device: record.devices[device].budget for device in whole}


def _emptiest_cards(record: HostRecord, offer: Offer) -> list[DeviceName]:
    """The cards that the model may get, with the most free memory first."""
    cards = [device for device in record.devices if device != RAM and (not offer.among or device in offer.among)]
    return sorted(cards, key=lambda card: -record.devices[card].free)


def _on_emptiest_cards(record: HostRecord, offer: Offer) -> dict[DeviceName, Bytes]:
    """For a model whose cards the host chooses: probably those with the most free memory, as few as it fits on."""
    found = {device: bytes_ for device, bytes_ in offer.memory.items() if device != ANY_GPU.device}
    cards = _emptiest_cards(record, offer)[: offer.gpus or None]
    left, together = offer.memory[ANY_GPU.device], sum(record.devices[card].budget for card in cards)
    for card in cards:
        budget = record.devices[card].budget
        share = -(-offer.memory[ANY_GPU.device] * budget // together) if offer.gpus else left
        found[card] = min(left, share, budget)
        left -= found[card]
    # What no card has room for makes the host too small.
    return {device: bytes_ for device, bytes_ in {**found, ANY_GPU.device: left}.items() if bytes_}


def promised(roster: Roster, member: Member, model: ModelName, now: Instant) -> Sequence[Offer]:
    """Other models about to be loaded there: claimed, or waited for without a process yet."""
    held = roster.claims.on_host(member.name, now)
    if not held and not member.waited_for:
        return ()
    names = dict.fromkeys(member.waited_for) | dict.fromkeys(each.claim.model for each in held)
    coming = (name for name in names if name != model and not _has_process(member, name))
    return [offer for name in coming if (offer := roster.offer(member, name))]


def _has_process(member: Member, name: ModelName) -> bool:
    residence = member.residents.get(name)
    return residence is not None and residence.phase not in TAKES_NO_MEMORY


def has_free_memory(member: Member, offer: Offer, due: Sequence[Offer]) -> bool:
    if member.record.devices:
        return not lacks(member.record, offer, due)
    return not due and not _taking_turns(member)


def lacks(record: HostRecord, offer: Offer, due: Sequence[Offer]) -> dict[DeviceName, Bytes]:
    """How much memory is missing, by device."""
    missing = {}
    for device, bytes_ in needs(record, offer).items():
        lack = bytes_ - record.devices[device].free
        for other in due:
            lack += needs(record, other).get(device, 0)
        if lack > 0:
            missing[device] = lack
    return missing


# Memory that is not free


def clearing(
    member: Member, offer: Offer, due: Sequence[Offer], now: Instant, sparing: Collection[ModelName]
) -> Clearing | None:
    """The cost of making memory for the model there; None if impossible.

    If memory does not suffice for all models that are about to load, those count as models in use.
    """
    if not member.record.devices:
        return _one_at_a_time(member, due, now, sparing)
    missing = {Place(member.name, device): lack for device, lack in lacks(member.record, offer, due).items()}
    if not missing:
        return Clearing(0.0, ())
    given = cheapest(_offers(member, missing, now, sparing), missing)
    if given is not None:
        return Clearing(total(given), tuple(each.model for each in given))
    if not due:
        return None
    cleared = clearing(member, offer, (), now, sparing)
    return None if cleared is None else Clearing(cleared.price + price_in_use(len(due)), cleared.leave)


def _one_at_a_time(
    member: Member, due: Sequence[Offer], now: Instant, sparing: Collection[ModelName]
) -> Clearing | None:
    there = _taking_turns(member)
    if any(residence.pinned or residence.model in sparing for residence in there):
        return None
    waited_for = price_in_use(len(due)) if due else 0.0
    return Clearing(waited_for + sum(price(member, residence, now) for residence in there), there)


def _taking_turns(member: Member) -> tuple[Residence, ...]:
    """A sleeping model blocks nobody where memory is not counted."""
    return tuple(residence for residence in _with_process(member) if residence.phase != ASLEEP)


def _with_process(member: Member) -> Iterator[Residence]:
    return (residence for residence in member.residents.values() if residence.phase not in TAKES_NO_MEMORY)


def _offers(
    member: Member, missing: Mapping[Place, Bytes], now: Instant, sparing: Collection[ModelName]
) -> Iterator[eviction.Offer[Residence]]:
    for residence in _with_process(member):
        if not residence.pinned and residence.model not in sparing:
            freed = {place: bytes_ for place in missing if (bytes_ := residence.memory.get(place.device, 0))}
            yield eviction.Offer(price(member, residence, now), residence.model, residence, freed)


def price_in_use(users: int) -> float:
    return BUSY * (1 + users)


def price(member: Member, residence: Residence, now: Instant) -> float:
    """The price of one resident; 0 if it is already leaving."""
    if residence.phase in LEAVING:
        return 0.0
    users = member.load(residence.model)
    if users or residence.phase == LOADING:
        return price_in_use(users)
    return (residence.load_s or UNKNOWN_LOAD_S) / next_use_s((), member.unused_s(residence, now))


# Estimates


def at_most(member: Member, offer: Offer, due: Sequence[Offer], now: Instant) -> float:
    """An upper bound of the cost, without the search for the best set: enough to preselect hosts."""
    if not member.record.devices:
        cleared = _one_at_a_time(member, due, now, ())
        return NEVER_ENOUGH if cleared is None else cleared.price
    if now > member.ladders_until:
        member.ladders = {device: _ladder(member, device, now) for device in member.record.devices}
        member.ladders_until = now + LADDERS_KEEP_S
    missing = lacks(member.record, offer, due)
    costs = max((_rung(member.ladders[device], lack) for device, lack in missing.items()), default=0.0)
    if costs < NEVER_ENOUGH or not due:
        return costs
    return at_most(member, offer, (), now) + price_in_use(len(due))


def _ladder(member: Member, device: DeviceName, now: Instant) -> list[tuple[Bytes, float]]:
    """Cumulative memory and price of a device, if models leave in order of price."""
    leaving = sorted(
        (price(member, residence, now), bytes_)
        for residence in _with_process(member)
        if not residence.pinned and (bytes_ := residence.memory.get(device, 0))
    )
    had = accumulate(bytes_ for _, bytes_ in leaving)
    return list(zip(had, accumulate(price for price, _ in leaving), strict=True))


def _rung(ladder: list[tuple[Bytes, float]], lack: Bytes) -> float:
    for had, costs in ladder:
        if had >= lack:
            return costs
    return NEVER_ENOUGH
