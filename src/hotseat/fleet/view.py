"""The fleet as one host sees it, for display."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, DeviceName, HostName, ModelName, Seconds


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
