"""PURE: the fleet as one host sees it, for display: made of its roster and of what it has counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hotseat.fleet.claims import Agreed
    from hotseat.fleet.member import Member
    from hotseat.fleet.records import HostOrder, Residence
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Bytes, DeviceName, HostName, Instant, ModelName, Seconds

DIGITS_SHOWN = 8
"""Of the digest of a host's catalog: enough to compare a few by eye."""


class FleetConnection(Enum):
    """Whether this host is connected to the fleet."""

    JOINING = "joining"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"


class Order(Enum):
    """An operator's order for a host, valid until withdrawn."""

    CORDON = "cordon"
    """No new models are placed there."""
    DRAIN = "drain"
    """Also, its models leave: those in use as soon as another host has them."""


class HostState(Enum):
    """The state of a host as seen from here."""

    THIS_HOST = "this_host"
    REACHABLE = "reachable"
    UNREACHABLE = "unreachable"
    """It refused connections and is excluded for a while."""
    LEAVING = "leaving"


class Agreement(Enum):
    """Who decided that a model is loaded."""

    MADE = "made"
    """This host: its claim was first."""
    LOST = "lost"
    """Another host was first."""
    ALONE = "alone"
    """This host alone: the store was unreachable."""


class DeviceMemory(Struct, frozen=True):
    device: DeviceName
    budget: Bytes
    free: Bytes


class Resident(Struct, frozen=True):
    model: ModelName
    phase: str
    memory: Mapping[DeviceName, Bytes]
    in_flight: int
    waiting: int
    oldest_wait_s: Seconds
    pinned: bool
    phase_s: Seconds | None = None
    """Since its phase began; None: unknown."""


@dataclass(frozen=True, slots=True)
class HostView:
    name: HostName
    address: str
    version: str
    labels: Mapping[str, str]
    state: HostState
    last_seen_s: Seconds
    """Since its last update."""
    orders: frozenset[Order]
    devices: tuple[DeviceMemory, ...]
    residents: tuple[Resident, ...]
    passed_on: int = 0
    """Requests that this host sent there."""
    turned_away: int = 0
    """Of those, how many it could not or would not take."""
    config_digest: str = ""
    """Of its models as configured there, shortened."""
    problem: str = ""
    """Why it is unreachable; empty while it is not."""
    missing_files: Mapping[ModelName, str] = field(default_factory=dict)
    """A file that its disk does not have, of each of its models that lacks one."""
    unreachable: Mapping[HostName, str] = field(default_factory=dict)
    """Hosts that it cannot reach at present, and why."""
    certificate_ends: float | None = None
    """POSIX time; None: unknown, or no TLS."""
    clock_ahead_s: Seconds | None = None
    """Of the clock of this host; None: unknown."""


@dataclass(frozen=True, slots=True)
class AbsentView:
    """An absent host, and the orders that wait for it."""

    name: HostName
    orders: frozenset[Order]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A host chosen to load a model, before the load starts."""

    model: ModelName
    host: HostName
    by: HostName
    reason: str


@dataclass(frozen=True, slots=True)
class FleetView:
    me: HostName
    connection: FleetConnection
    """Of this host."""
    hosts: tuple[HostView, ...]
    claims: tuple[ClaimView, ...]
    agreements: Mapping[Agreement, int] = field(default_factory=dict)
    """Load decisions, by who made them."""
    malformed: int = 0
    """Records that were ignored."""
    absent: tuple[AbsentView, ...] = ()
    """Those that have orders."""
    problem: str = ""
    """Why this host is disconnected; empty while it is not."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A model on another host."""

    host: HostName
    phase: str


class FleetCounters:
    """Of requests sent to other hosts, and of load decisions that hosts had to agree on."""

    __slots__ = ("agreements", "passed_on", "turned_away")

    def __init__(self) -> None:
        self.passed_on: Counter[HostName] = Counter()
        self.turned_away: Counter[HostName] = Counter()
        self.agreements: Counter[Agreement] = Counter()

    def agreed(self, agreed: Agreed, me: HostName) -> None:
        self.agreements[_who_decided(agreed, me)] += 1

    def keep_only(self, hosts: Collection[HostName]) -> None:
        """Drop the counters of all other hosts."""
        for counted in (self.passed_on, self.turned_away):
            for gone in [host for host in counted if host not in hosts]:
                del counted[gone]


def _who_decided(agreed: Agreed, me: HostName) -> Agreement:
    if agreed.revision is None:
        return Agreement.ALONE
    return Agreement.MADE if agreed.claim.by == me else Agreement.LOST


def snapshot(roster: Roster, counters: FleetCounters, connection: FleetConnection, now: Instant) -> FleetView:
    """Hosts by name, including this one."""
    members = sorted(roster.hosts, key=lambda member: member.name)
    return FleetView(
        me=roster.me,
        connection=connection,
        hosts=tuple(_host(member, roster, counters, now) for member in members),
        claims=tuple(claim for member in members for claim in _claims(member, roster, now)),
        absent=tuple(AbsentView(name, orders_in(roster.orders.of(name))) for name in sorted(roster.orders.awaited())),
        agreements=dict(counters.agreements),
        malformed=roster.malformed,
    )


def _host(member: Member, roster: Roster, counters: FleetCounters, now: Instant) -> HostView:
    record = member.record
    return HostView(
        name=record.name,
        address=record.address,
        version=record.version,
        labels=record.labels,
        state=_state(member, roster, now),
        problem=member.problem if member.is_shunned(now) else "",
        last_seen_s=max(0.0, now - member.received_at),
        orders=orders_in(roster.orders.of(record.name)),
        devices=tuple(DeviceMemory(device, memory.budget, memory.free) for device, memory in record.devices.items()),
        residents=tuple(_resident(residence, now - member.received_at) for residence in record.residents),
        passed_on=counters.passed_on[record.name],
        turned_away=counters.turned_away[record.name],
        config_digest=record.catalog[:DIGITS_SHOWN],
        missing_files=record.missing_files,
        unreachable=record.unreachable,
        certificate_ends=member.path.certificate_ends,
        clock_ahead_s=member.path.clock_ahead_s,
    )


def _state(member: Member, roster: Roster, now: Instant) -> HostState:
    if member.record.is_leaving:
        return HostState.LEAVING
    if member.name == roster.me:
        return HostState.THIS_HOST
    return HostState.UNREACHABLE if member.is_shunned(now) else HostState.REACHABLE


def orders_in(order: HostOrder) -> frozenset[Order]:
    given = {Order.CORDON: order.cordoned, Order.DRAIN: order.drained}
    return frozenset(order for order, is_given in given.items() if is_given)


def _resident(residence: Residence, age_s: Seconds) -> Resident:
    return Resident(
        model=residence.model,
        phase=residence.phase,
        memory=residence.memory,
        in_flight=residence.in_flight,
        waiting=residence.waiting,
        oldest_wait_s=residence.oldest_wait_s,
        pinned=residence.pinned,
        phase_s=None if residence.phase_s is None else round(residence.phase_s + age_s, 1),
    )


def _claims(member: Member, roster: Roster, now: Instant) -> Iterator[ClaimView]:
    for held in roster.claims.on_host(member.name, now):
        claim = held.claim
        yield ClaimView(claim.model, claim.host, claim.by, claim.reason)
