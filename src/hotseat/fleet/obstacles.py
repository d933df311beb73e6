"""PURE: what prevents a host from serving or loading a model, and how to explain that to the client."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hotseat.fleet.load_cost import fits, fits_beside_pinned
from hotseat.scheduling.memory_fit import in_gib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostRecord, Offer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Instant, ModelName

NAMED = 3
"""How many hosts with the same problem an error lists."""


class Obstacle(Enum):
    """In the order of the checks."""

    LEAVING = "shutting down"
    SUSPECT = "not answering"
    DRAINED = "drained"
    CORDONED = "cordoned"
    LABELS = "missing the required labels"
    MISSING_FILE = "missing its file"
    TOO_SMALL = "too small for it"
    NO_MEMORY = "full of models that cannot be unloaded"
    OTHER_PROGRAMS = "short of memory that other programs use"

    @property
    def may_pass(self) -> bool:
        """Without an operator: the host may come back, or the programs may end."""
        return self in (Obstacle.LEAVING, Obstacle.SUSPECT, Obstacle.OTHER_PROGRAMS)


HELP = {
    Obstacle.LEAVING: "start another host",
    Obstacle.SUSPECT: "check that it is reachable",
    Obstacle.DRAINED: "undrain it",
    Obstacle.CORDONED: "uncordon it",
    Obstacle.LABELS: "label a host as the model requires",
    Obstacle.MISSING_FILE: "copy the file to it",
    Obstacle.TOO_SMALL: "choose a smaller quantisation",
    Obstacle.NO_MEMORY: "unpin a model",
    Obstacle.OTHER_PROGRAMS: "stop those programs",
}


def obstacle_to_serving(roster: Roster, member: Member, offer: Offer | None, now: Instant) -> Obstacle | None:
    """What prevents sending this host a request for a model with this offer."""
    if member.record.is_leaving:
        return Obstacle.LEAVING
    if now < member.shunned_until:
        return Obstacle.SUSPECT
    # The catalog may arrive later than the record; the host itself knows its labels.
    if roster.catalog.has(member.record.catalog) and not (offer and is_labelled_for(member.record, offer)):
        return Obstacle.LABELS
    return Obstacle.DRAINED if roster.orders.of(member.name).drained else None  # it may go on serving what it has


def obstacle_to_loading(
    model: ModelName, roster: Roster, member: Member, offer: Offer, now: Instant
) -> Obstacle | None:
    """What prevents choosing this host to load the model, however much memory could be freed there."""
    obstacle = obstacle_to_serving(roster, member, offer, now)
    if obstacle:
        return obstacle
    if roster.orders.of(member.name).cordoned:
        return Obstacle.CORDONED
    if model in member.record.missing_files:
        return Obstacle.MISSING_FILE
    return None if fits(member.record, offer) else Obstacle.TOO_SMALL


def obstacle_to_clearing(member: Member, offer: Offer) -> Obstacle:
    """What prevents enough memory from becoming free on a host that is large enough."""
    return Obstacle.OTHER_PROGRAMS if fits_beside_pinned(member, offer) else Obstacle.NO_MEMORY


def is_guess(obstacle: Obstacle, offer: Offer | None) -> bool:
    """Does only an estimate speak against the host? The model may be tried alone there."""
    about_memory = obstacle in (Obstacle.TOO_SMALL, Obstacle.NO_MEMORY, Obstacle.OTHER_PROGRAMS)
    return about_memory and bool(offer and offer.is_estimate and offer.memory)


def is_labelled_for(record: HostRecord, offer: Offer) -> bool:
    return not offer.labels or offer.labels.items() <= record.labels.items()


def obstacles_in_words(model: ModelName, roster: Roster, hindered: Iterable[tuple[Obstacle, Member]]) -> str:
    """Which hosts have the model, why none of them can serve it, and what helps."""
    by_kind: dict[Obstacle, list[Member]] = {}
    for obstacle, member in hindered:
        by_kind.setdefault(obstacle, []).append(member)
    if not by_kind:
        return f"{model} cannot be placed: no available host has it. Start a host whose configuration has it."
    kinds = [kind for kind in Obstacle if kind in by_kind]
    why = "; ".join(f"{_names(by_kind[kind])} {in_words(kind, model, roster, by_kind[kind])}" for kind in kinds)
    return f"{model} cannot be placed: {why}. To fix this, {' or '.join(HELP[kind] for kind in kinds)}."


def _names(members: list[Member]) -> str:
    names = sorted(member.name for member in members)
    rest = len(names) - NAMED
    named = ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return f"{named} {'is' if len(names) == 1 else 'are'}"


def in_words(obstacle: Obstacle, model: ModelName, roster: Roster, members: list[Member]) -> str:
    """What these hosts are, with what the model needs there."""
    return f"{obstacle.value}{_needs(obstacle, model, roster, members)}"


def _needs(kind: Obstacle, model: ModelName, roster: Roster, members: list[Member]) -> str:
    if kind is Obstacle.MISSING_FILE:
        return f" ({', '.join(sorted({member.record.missing_files[model] for member in members})[:NAMED])})"
    if kind is Obstacle.SUSPECT and (problems := sorted({member.problem for member in members} - {""})):
        return f" ({'; '.join(problems[:NAMED])})"
    offer = roster.offer(members[0], model)
    if offer and kind is Obstacle.LABELS and offer.labels:
        return f" (it needs {', '.join(f'{label}={value}' for label, value in sorted(offer.labels.items()))})"
    if offer and kind is Obstacle.TOO_SMALL and offer.memory:
        return f" (it needs {' and '.join(f'{in_gib(bytes_)} on {device}' for device, bytes_ in offer.memory.items())})"
    return ""
