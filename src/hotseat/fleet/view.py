"""The fleet as one host sees it: what those who know it tell those who show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.identifiers import Bytes, DeviceName, HostName, ModelName, Seconds


class Standing(Enum):
    """Does the fleet know of us, and we of it?"""

    JOINING = "joining"
    TOGETHER = "together"
    APART = "apart"


class Order(Enum):
    """What an operator may want of a host, until it is taken back."""

    CORDON = "cordon"
    """Nothing new is placed there."""
    DRAIN = "drain"
    """And what is there goes, as soon as nobody uses it."""


class HostStanding(Enum):
    """How it stands with a host, as far as it can be told from here."""

    HERE = "here"
    HEARD = "heard"
    SHUNNED = "shunned"
    """It refused connections, so it is left out for a while."""
    LEAVING = "leaving"


class Agreement(Enum):
    """Who decided that a model is loaded."""

    MADE = "made"
    """This host: its claim was the first."""
    LOST = "lost"
    """Another one was quicker."""
    ALONE = "alone"
    """This host, without asking: the store was away."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    device: DeviceName
    budget: Bytes
    free: Bytes


@dataclass(frozen=True, slots=True)
class Resident:
    model: ModelName
    phase: str
    memory: Mapping[DeviceName, Bytes]
    in_flight: int
    waiting: int
    oldest_wait_s: Seconds
    pinned: bool


@dataclass(frozen=True, slots=True)
class HostView:
    name: HostName
    address: str
    version: str
    labels: Mapping[str, str]
    standing: HostStanding
    heard_s: Seconds
    """Since its last word."""
    orders: frozenset[Order]
    devices: tuple[DeviceRoom, ...]
    residents: tuple[Resident, ...]
    passed_on: int = 0
    """Requests that this host sent there."""
    turned_away: int = 0
    """Of those, how many it could not or would not take."""


@dataclass(frozen=True, slots=True)
class AbsentView:
    """A host that is not there, and what it is told to do when it comes."""

    name: HostName
    orders: frozenset[Order]


@dataclass(frozen=True, slots=True)
class ClaimView:
    """Who was chosen to load a model, and has not begun."""

    model: ModelName
    host: HostName
    by: HostName
    because: str


@dataclass(frozen=True, slots=True)
class FleetView:
    me: HostName
    standing: Standing
    """Of this host."""
    hosts: tuple[HostView, ...]
    claims: tuple[ClaimView, ...]
    agreements: Mapping[Agreement, int] = field(default_factory=dict)
    """How often a load was agreed upon."""
    malformed: int = 0
    """Records that were passed over."""
    absent: tuple[AbsentView, ...] = ()
    """Those for whom orders stand."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A model that is on another host."""

    host: HostName
    phase: str
