"""The facts. Past tense, boring on purpose: what they mean is decided in scheduler.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hotseat.catalog.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.errors import LoadFailed
    from hotseat.identifiers import Bytes, ClientId, LaunchId, ModelName, Place, Seconds, TicketId, Upstream


@dataclass(frozen=True, slots=True)
class RequestArrived:
    """A client wants to use a model."""

    ticket: TicketId
    model: ModelName
    client: ClientId
    takes_slot: bool = True
    """False for reads such as GET /slots: they never wait behind a generation."""


@dataclass(frozen=True, slots=True)
class LoadRequested:
    """An operator wants a model to be ready. Forgives earlier failures; the ticket never holds a lease."""

    ticket: TicketId
    model: ModelName
    client: ClientId


@dataclass(frozen=True, slots=True)
class UnloadRequested:
    """An operator wants a model to be gone."""

    ticket: TicketId
    model: ModelName
    force: bool = False
    """Do not wait for requests in flight."""


@dataclass(frozen=True, slots=True)
class RequestLeft:
    """The last byte was relayed, or the client hung up, in whatever state its ticket was."""

    ticket: TicketId
    is_answered: bool = False
    """Did its server answer to the end? Then the server has shown that it works."""


@dataclass(frozen=True, slots=True)
class UpstreamReady:
    model: ModelName
    launch: LaunchId
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class SlotsLearned:
    """A ready server said how many requests it works on at a time."""

    model: ModelName
    launch: LaunchId
    total_slots: int


@dataclass(frozen=True, slots=True)
class MemoryMeasured:
    """What a server was seen to take: the most of its last few lives, this one included; of one asleep, just now."""

    model: ModelName
    launch: LaunchId
    memory: Mapping[Place, Bytes]
    estimated: Mapping[Place, Bytes] | None = None
    """What had been expected, for those who read."""
    budgets: Mapping[Place, Bytes] = field(default_factory=lambda: NOTHING)
    """What all models together may take of those devices, for those who read."""


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """Others take another share of the devices: so much of each is left for models."""

    available: Mapping[Place, Bytes]


@dataclass(frozen=True, slots=True)
class WayMade:
    """Somebody at this machine has precedence; models have to be gone from these devices, or from all."""

    because: str
    places: frozenset[Place] = frozenset()
    """Empty: all of them."""


@dataclass(frozen=True, slots=True)
class WayRegained:
    """Whoever had precedence is gone."""


@dataclass(frozen=True, slots=True)
class UpstreamFailed:
    """A start came to nothing; no process of it is left."""

    model: ModelName
    launch: LaunchId
    error: LoadFailed


@dataclass(frozen=True, slots=True)
class UpstreamExited:
    """A ready upstream is gone, asked or unasked; no process of it is left."""

    model: ModelName
    launch: LaunchId
    how: str
    """Exit code or signal in words."""
    output: tuple[str, ...] = ()
    """The last lines that it wrote, where nobody had asked it to end. There may be prompts in them."""


@dataclass(frozen=True, slots=True)
class UpstreamUnresponsive:
    """A server that requests wait for answered neither them nor its health check for so long; its process is there."""

    model: ModelName
    launch: LaunchId
    silent_s: Seconds


@dataclass(frozen=True, slots=True)
class UpstreamAsleep:
    """A server that was put to sleep sleeps: its room is free, but for what it keeps."""

    model: ModelName
    launch: LaunchId


@dataclass(frozen=True, slots=True)
class UpstreamAwake:
    """A server that slept is ready again."""

    model: ModelName
    launch: LaunchId


@dataclass(frozen=True, slots=True)
class SleepFailed:
    """A server could not be put to sleep, or it is not known whether it sleeps; its process still runs."""

    model: ModelName
    launch: LaunchId
    error: str


@dataclass(frozen=True, slots=True)
class WakeFailed:
    """A server that sleeps could not be woken; its process still runs."""

    model: ModelName
    launch: LaunchId
    error: str


@dataclass(frozen=True, slots=True)
class ClockReached:
    """The time asked for with WakeAt has come."""


@dataclass(frozen=True, slots=True)
class CatalogChanged:
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """Take no more requests; let those in flight finish; stop every upstream."""

    force: bool = False


Event: TypeAlias = (
    RequestArrived
    | LoadRequested
    | UnloadRequested
    | RequestLeft
    | UpstreamReady
    | SlotsLearned
    | MemoryMeasured
    | DevicesChanged
    | WayMade
    | WayRegained
    | UpstreamFailed
    | UpstreamExited
    | UpstreamUnresponsive
    | UpstreamAsleep
    | UpstreamAwake
    | SleepFailed
    | WakeFailed
    | ClockReached
    | CatalogChanged
    | ShutdownRequested
)
