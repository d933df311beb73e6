"""PURE: which host serves a request, from what this host knows, and what prevents others from it.

Where the model is ready or loading, no agreement is needed. Only a load that no host has decided yet needs one, which
claims.py makes. Placement decides which host gets a request; that host's own scheduler decides when it is served
and which models are evicted for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hotseat.fleet.load_cost import (
    NEVER_ENOUGH,
    Clearing,
    at_most,
    clearing,
    fits,
    fits_beside_pinned,
    has_free_memory,
    promised,
)
from hotseat.fleet.member import COLD, COMING, LOADING, READY
from hotseat.fleet.roster import rendezvous_score
from hotseat.scheduling.memory_fit import in_gib

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostRecord, Offer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import ClientId, HostName, Instant, ModelName

GLANCED_AT = 128
"""At most this many candidate hosts are compared, since a decision must not take longer than a request. The best of
them is in the top percent, and other models compare other hosts."""
LOOKED_AT = 8
"""Of these, this many are examined in detail."""
NAMED = 3
"""How many hosts with the same problem an error lists."""


@dataclass(frozen=True, slots=True)
class Serve:
    """Send the request there: the model is ready or will be."""

    host: HostName
    reason: str


@dataclass(frozen=True, slots=True)
class Load:
    """This host should load the model. Requires a claim before anybody acts on it."""

    model: ModelName
    host: HostName
    replica: int
    reason: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    reason: str
    may_pass: bool = False
    """Without that anybody changes anything: waiting may help."""


@dataclass(frozen=True, slots=True)
class Means:
    """The limits on what a load may cost others."""

    dearest: float = float("inf")
    sparing: Collection[ModelName] = ()
    """Models that may not be evicted for it."""


WHATEVER_IT_TAKES = Means()
Decision: TypeAlias = Serve | Load | Nowhere


def place(
    model: ModelName, client: ClientId, roster: Roster, now: Instant, without: Collection[HostName] = ()
) -> Decision:
    """`without`: hosts that could not serve this request."""
    ready, coming = replicas(model, roster, now, without)
    if ready:
        return _to_ready(model, client, ready, roster)
    if drained := _still_serving(model, roster, now, without):
        return _to_drained(model, drained)
    if coming:
        return _to_coming(model, coming, roster)
    return load(model, roster, now, without=without)


def replicas(
    model: ModelName, roster: Roster, now: Instant, without: Collection[HostName] = ()
) -> tuple[list[Member], list[tuple[int, Member]]]:
    """Hosts that can serve it: those where it is ready, and those where it will be, with their index in COMING."""
    ready: list[Member] = []
    coming: list[tuple[int, Member]] = []
    for member, residence in roster.hosts.residences(model):
        if member.name in without or obstacle_to_serving(roster, member, roster.offer(member, model), now):
            continue
        if residence.phase == READY:
            ready.append(member)
        else:
            coming.append((COMING.index(residence.phase), member))
    # A claimed replica is as far as one that requests wait for and that has no process yet.
    coming += [(COMING.index(COLD), member) for member in chosen(model, roster, now) if member.name not in without]
    return ready, coming


def chosen(model: ModelName, roster: Roster, now: Instant) -> list[Member]:
    """Hosts that are claimed to load it, can serve, and neither have it nor are starting it yet."""
    members = {held.claim.host: roster.hosts.get(held.claim.host) for held in roster.claims.for_model(model, now)}
    return [
        member
        for member in members.values()
        if member
        and not member.has(model)
        and not _has_refused(model, member, roster)
        and not obstacle_to_serving(roster, member, roster.offer(member, model), now)
    ]


def _has_refused(model: ModelName, member: Member, roster: Roster) -> bool:
    """Was it cordoned or drained after it was chosen, and has it turned a request away because of that?"""
    return model in member.backing_off and roster.orders.of(member.name).is_given


def _still_serving(model: ModelName, roster: Roster, now: Instant, without: Collection[HostName]) -> list[Member]:
    """Drained hosts that serve it until another host does."""
    return [
        member
        for member, _ in roster.hosts.residences(model)
        if member.still_serves(model)
        and member.name not in without
        and obstacle_to_serving(roster, member, roster.offer(member, model), now) is Obstacle.DRAINED
    ]


def _to_drained(model: ModelName, drained: list[Member]) -> Serve:
    best = min(drained, key=lambda member: (member.load_per_slot(model), member.name))
    return Serve(best.name, "that host is drained, but the model is not ready on another one yet")


def _to_ready(model: ModelName, client: ClientId, ready: list[Member], roster: Roster) -> Serve:
    if len(ready) == 1:
        return Serve(ready[0].name, "it is ready on that host only")
    ready = rightful(model, ready, roster)
    free = [member for member in ready if member.load(model) < member.slots(model)]
    if free and client:
        best = max(free, key=lambda member: rendezvous_score(f"{client}\0{model}", member.name))
        return Serve(
            best.name, f"it is ready there with a free slot, as on {len(free)} of {len(ready)}, and it is this host"
        )
    best = min(ready, key=lambda member: (member.load_per_slot(model), member.name != roster.me, member.name))
    return Serve(
        best.name, f"it is ready on {len(ready)} hosts, and {best.load(model)} requests per slot are the fewest there"
    )


def rightful(model: ModelName, ready: list[Member], roster: Roster) -> list[Member]:
    """The replicas that stay if there are too many. All hosts choose the same, so the others become unused."""
    most = roster.catalog.most(model)
    return (
        ready if len(ready) <= most else nlargest(most, ready, key=lambda member: rendezvous_score(model, member.name))
    )


def _to_coming(model: ModelName, coming: list[tuple[int, Member]], roster: Roster) -> Serve:
    def distance(each: tuple[int, Member]) -> tuple[int, float, bool, HostName]:
        steps, member = each
        return steps, member.load_per_slot(model), member.name != roster.me, member.name

    steps, best = min(coming, key=distance)
    return Serve(best.name, f"it is {COMING[steps]} there" if best.has(model) else "it was already chosen to load it")


# Loads


class Candidate(NamedTuple):
    """A host that may load the model, and the other models it is about to load."""

    member: Member
    offer: Offer
    due: Sequence[Offer]


def load(
    model: ModelName,
    roster: Roster,
    now: Instant,
    replica: int = 0,
    means: Means = WHATEVER_IT_TAKES,
    without: Collection[HostName] = (),
) -> Load | Nowhere:
    """The host that should load it, within the limits."""
    replica = _unclaimed(model, replica, roster, now)
    hindered: list[tuple[Obstacle, Member]] = []
    for some in _able(model, roster, now, hindered, without):
        found = _best(model, some, roster, now, means)
        if found:
            return Load(model, found[0].name, replica, found[1])
        hindered += [(obstacle_to_clearing(each.member, each.offer), each.member) for each in some]
    guessed = [each for obstacle, each in hindered if is_guess(obstacle, roster.offer(each, model))]
    if means is WHATEVER_IT_TAKES and (guessed := [each for each in guessed if not each.has(model)]):
        calm = _by_calm(model, roster)
        best = min(guessed, key=lambda member: (model in member.backing_off, calm(member)))
        return Load(model, best.name, replica, f"its estimate fits no host, so it is tried alone on {best.name}")
    return Nowhere(obstacles_in_words(model, roster, hindered), _may_pass(model, roster, hindered))


def _may_pass(model: ModelName, roster: Roster, hindered: list[tuple[Obstacle, Member]]) -> bool:
    """On one host at least; one that is expected back, or of which nothing is known yet, may serve the model."""
    expected = any(roster.catalog.offer(digest, model) for digest in roster.hosts.absences.catalogs())
    return expected or not hindered or any(obstacle.may_pass for obstacle, _ in hindered)


def _able(
    model: ModelName,
    roster: Roster,
    now: Instant,
    hindered: list[tuple[Obstacle, Member]],
    without: Collection[HostName],
) -> Iterator[list[Candidate]]:
    """Candidates in batches; adds the other hosts with their obstacle to `hindered`.

    Skips hosts that have the model already. Hosts where it failed recently come last.
    """
    some: list[Candidate] = []
    failed: list[Candidate] = []
    for member, offer in roster.offering(model):
        if member.name in without:
            continue
        obstacle = obstacle_to_loading(model, roster, member, offer, now)
        if obstacle:
            hindered.append((obstacle, member))
        elif not member.has(model):
            candidate = Candidate(member, offer, promised(roster, member, model, now))
            (failed if model in member.backing_off else some).append(candidate)
        if len(some) == GLANCED_AT:
            yield some
            some = []
    yield from (rest for rest in (some, failed) if rest)


def _best(
    model: ModelName, some: list[Candidate], roster: Roster, now: Instant, means: Means
) -> tuple[Member, str] | None:
    """A host with free memory, else the cheapest one; and the reason."""
    free = [each.member for each in some if has_free_memory(each.member, each.offer, each.due)]
    if free:
        best = min(free, key=_by_calm(model, roster))
        return best, f"{best.name} has enough free memory"
    found = _cheapest(model, some, roster, now, means.sparing)
    if found and found[1].price <= means.dearest:
        return found[0], _costs_least(*found, now)
    return None


def _unclaimed(model: ModelName, replica: int, roster: Roster, now: Instant) -> int:
    """The first number from `replica` on without a claim, since the claimed host may be gone."""
    taken = {held.claim.replica for held in roster.claims.for_model(model, now)}
    while replica in taken:
        replica += 1
    return replica


def _by_calm(model: ModelName, roster: Roster) -> Callable[[Member], tuple[int, int, bool, int]]:
    """Prefer hosts with few loads, then few users; on a tie this host, then the model's rendezvous owner."""

    def calm(member: Member) -> tuple[int, int, bool, int]:
        loading = sum(residence.phase == LOADING for residence in member.residents.values())
        users = sum(map(member.load, member.residents))
        return loading, users, member.name != roster.me, -rendezvous_score(model, member.name)

    return calm


def _cheapest(
    model: ModelName, able: list[Candidate], roster: Roster, now: Instant, sparing: Collection[ModelName]
) -> tuple[Member, Clearing] | None:
    """The host where memory costs least; of many hosts, only those with the lowest estimates are examined in detail."""
    found = []
    for each in _at_a_glance(able, roster, now):
        cleared = clearing(each.member, each.offer, each.due, now, sparing)
        if cleared is not None:
            found.append(
                (
                    cleared.price,
                    each.member.name != roster.me,
                    -rendezvous_score(model, each.member.name),
                    each,
                    cleared,
                )
            )
    if not found:
        return None
    *_, best, cleared = min(found, key=lambda each: each[:3])
    return best.member, cleared


def _at_a_glance(able: list[Candidate], roster: Roster, now: Instant) -> list[Candidate]:
    if len(able) <= LOOKED_AT:
        return able
    seem = [
        (costs, each.member.name != roster.me, n)
        for n, each in enumerate(able)
        if (costs := at_most(each.member, each.offer, each.due, now)) < NEVER_ENOUGH
    ]
    return [able[n] for _, _, n in nsmallest(LOOKED_AT, seem)]


def _costs_least(member: Member, cleared: Clearing, now: Instant) -> str:
    unused = min((member.unused_s(each, now) for each in cleared.leave if not member.load(each.model)), default=None)
    names = ", ".join(each.model for each in cleared.leave) or "others that were loaded earlier"
    since = "in use" if unused is None else f"idle for {unused:.0f} s"
    return (
        f"no host has enough free memory, and the cost is lowest on {member.name},"
        f" where {names} ({since}) can be unloaded"
    )


# Obstacles


class Obstacle(Enum):
    """What prevents a host from serving or loading a model, in the order of the checks."""

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
