"""What happened, in the past tense. scheduler.py decides what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from hotseat.catalog.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.named_models import FleetModel
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import LoadFailed
    from hotseat.identifiers import (
        Bytes,
        ClientId,
        LaunchId,
        MeasuredMemory,
        ModelName,
        Place,
        Seconds,
        TicketId,
        Upstream,
    )
    from hotseat.scheduling.handover import Departure, Eviction, Failure, HeldLease


class RequestArrived(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    client: ClientId
    takes_slot: bool = True
    """False for reads such as GET /slots: they do not wait for a generation."""
    waited_s: Seconds | None = None
    """How long it has waited in the previous process, which has admitted it; None: it is new."""
    is_batch: bool = False
    """Others are served before it."""
    missing: str | None = None
    """Which file or program is missing, so that the model's server surely fails, in whole sentences; empty: none is;
    None: nobody has looked."""


class LoadRequested(Struct, frozen=True):
    """An operator's load. It clears earlier failures; its ticket never holds a lease."""

    ticket: TicketId
    model: ModelName
    client: ClientId
    waited_s: Seconds | None = None
    missing: str | None = None
    """Both as those of RequestArrived."""


def looked(event: RequestArrived | LoadRequested, missing: str) -> RequestArrived | LoadRequested:
    return replace(event, missing=missing)


class UnloadRequested(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    force: bool = False
    """Do not wait for requests in flight."""


class KeepAliveChanged(Struct, frozen=True):
    """A client of Ollama's API has said how long its model stays loaded without requests."""

    model: ModelName
    seconds: Seconds | None
    """In place of the configured ttl, until its process is gone. 0: unload it as soon as it is idle; None: never."""


class RequestLeft(Struct, frozen=True):
    """The response has ended or the client has disconnected, whether the ticket waited or held a lease."""

    ticket: TicketId
    is_answered: bool = False
    """True if the server completed its response, which proves that it works."""


class UpstreamReady(Struct, frozen=True):
    model: ModelName
    launch: LaunchId
    upstream: Upstream


class SlotsLearned(Struct, frozen=True):
    """How many requests a ready server processes at a time, as it reports itself."""

    model: ModelName
    launch: LaunchId
    total_slots: int


class MemoryMeasured(Struct, frozen=True):
    """Measured memory: the maximum of the last few processes and this one; if it sleeps, the current use."""

    model: ModelName
    launch: LaunchId
    memory: Mapping[Place, Bytes]
    estimated: Mapping[Place, Bytes] | None = None
    """The earlier estimate, for the journal."""
    budgets: Mapping[Place, Bytes] = field(default_factory=lambda: NOTHING)
    """What all models may use of these devices, for the journal."""


class DevicesChanged(Struct, frozen=True):
    """Other programs use more or less of the devices; this much is left for models."""

    available: Mapping[Place, Bytes]


class YieldRequested(Struct, frozen=True):
    """The operator or a program with precedence needs these devices, or all."""

    reason: str
    places: frozenset[Place] = frozenset()
    """Empty: all."""
    for_program: bool = False
    """There is one yield for an operator, and one for a program."""


class YieldEnded(Struct, frozen=True):
    """The yield is over."""

    for_program: bool = False


class UpstreamFailed(Struct, frozen=True):
    """A start failed; none of its processes is left."""

    model: ModelName
    launch: LaunchId
    error: LoadFailed


class UpstreamExited(Struct, frozen=True):
    """A server that had been ready exited, on request or not; none of its processes is left."""

    model: ModelName
    launch: LaunchId
    exit_status: str
    """Exit code or signal in words."""
    output: tuple[str, ...] = ()
    """Last output lines, if the exit was not requested. They may contain prompts."""
    hint: str = ""
    """What an operator can do, if the exit was not requested."""


class UpstreamUnresponsive(Struct, frozen=True):
    """A server answered neither requests nor its health check for `silent_s`; its process still exists."""

    model: ModelName
    launch: LaunchId
    silent_s: Seconds


class UpstreamAsleep(Struct, frozen=True):
    """The server sleeps: its memory is free except for what it keeps."""

    model: ModelName
    launch: LaunchId


class UpstreamAwake(Struct, frozen=True):
    model: ModelName
    launch: LaunchId


class SleepFailed(Struct, frozen=True):
    """The server could not be put to sleep, or its state is unknown; its process still runs."""

    model: ModelName
    launch: LaunchId
    error: str


class WakeFailed(Struct, frozen=True):
    """A sleeping server could not be woken; its process still runs."""

    model: ModelName
    launch: LaunchId
    error: str


class Transfer(Struct, frozen=True):
    """One conversation that was written to disk or read from it."""

    tokens: int
    size: Bytes
    took_s: Seconds


class ConversationsSaved(Struct, frozen=True):
    """The server is done with saving, or its time was over; its process still runs."""

    model: ModelName
    launch: LaunchId
    saved: tuple[Transfer, ...] = ()
    problem: str = ""
    """Why not all of them were saved; empty: all that were worth it."""
    unfinished: Transfer | None = None
    """What was being written when the time was over; its size is not known."""


class ConversationsRestored(Struct, frozen=True):
    """The server is done with restoring, or its time was over; its process still runs and is ready."""

    model: ModelName
    launch: LaunchId
    restored: tuple[Transfer, ...] = ()
    problem: str = ""
    """Why not all of them were restored; empty: all that were worth it."""


class PromptProcessed(Struct, frozen=True):
    """What a server reports about the prompt of a request that it has answered. Its lease still exists."""

    ticket: TicketId
    computed: int
    """Tokens that were computed."""
    cached: int
    """Tokens that were taken from a conversation in one of its slots."""
    took_s: Seconds
    """To compute them; 0: unknown."""
    generated: int = 0
    """Tokens of the answer, which the next prompt of the conversation includes."""


class ClockReached(Struct, frozen=True):
    """The time set with WakeAt has come."""


class CatalogChanged(Struct, frozen=True):
    """The configuration was read again. What it does not define stays: overrides, the profile, the fleet's models.

    Each of these changes by an event of its own that says what changes, so that no event undoes another.
    """

    catalog: Catalog
    measured: MeasuredMemory = field(default_factory=lambda: NOTHING)
    """Measured memory of its recipes, as far as known. Without a figure, an unchanged recipe keeps its own."""
    displaced: tuple[ModelName, ...] = ()
    """Their servers have what another model cannot do without now, such as its fixed port: they are replaced."""


class OverridesChanged(Struct, frozen=True):
    """An operator has set this for a model. None: as configured."""

    model: ModelName
    pinned: bool | None = None
    ttl_s: Seconds | None = None


class ProfileChanged(Struct, frozen=True):
    profile: str | None
    """None, or one that is not configured: none is active."""


class FleetModelsChanged(Struct, frozen=True):
    """The models that only other hosts of the fleet have, by every name they have."""

    fleet_models: Mapping[str, FleetModel]


class ShutdownRequested(Struct, frozen=True):
    """Accept no more requests, let those in flight finish, stop every server."""

    force: bool = False


class HandoverRequested(Struct, frozen=True):
    """The next process will adopt the servers: no step begins until the handover is over, those in progress end."""


class HandoverCancelled(Struct, frozen=True):
    """The next process did not take over: this one goes on."""


class HandoverReceived(Struct, frozen=True):
    """The previous process has handed over. Its servers and tickets follow, then HandoverCompleted."""

    last_launch: int = 0
    failures: tuple[Failure, ...] = ()
    """Of models whose recipe is still the same."""
    evictions: tuple[Eviction, ...] = ()
    saved: tuple[ModelName, ...] = ()
    """Models of which conversations were saved."""


class ServerAdopted(Struct, frozen=True):
    """A server of the previous process, which is ready, drains or sleeps."""

    model: ModelName
    launch: LaunchId
    spec: ModelSpec
    """What its process was started with."""
    upstream: Upstream
    sleep_level: SleepLevel | None = None
    """At which it sleeps or, with a departure, will sleep. Without steps to wake it, it is stopped."""
    departure: Departure | None = None
    """None: it does not drain."""
    phase_s: Seconds = 0.0
    ready_s: Seconds = 0.0
    idle_s: Seconds = 0.0
    claimed_s: Seconds | None = None
    served: int = 0
    keep_alive: KeepAliveChanged | None = None
    fell_asleep_in_s: Seconds | None = None
    slots_reported: int | None = None
    gpus: tuple[Place, ...] = ()
    given: Mapping[Place, Bytes] | None = None
    measured: Mapping[Place, Bytes] | None = None
    has_answered: bool = False
    leases: tuple[HeldLease, ...] = ()
    """Requests that the previous process still forwards; RequestLeft ends each of them."""


class HandoverCompleted(Struct, frozen=True):
    """All servers and tickets of the previous process are known."""


AboutLaunch: TypeAlias = (
    UpstreamReady
    | SlotsLearned
    | MemoryMeasured
    | UpstreamFailed
    | UpstreamExited
    | UpstreamUnresponsive
    | UpstreamAsleep
    | UpstreamAwake
    | SleepFailed
    | WakeFailed
    | ConversationsSaved
    | ConversationsRestored
)

AboutCatalog: TypeAlias = CatalogChanged | OverridesChanged | ProfileChanged | FleetModelsChanged

Event: TypeAlias = (
    RequestArrived
    | LoadRequested
    | UnloadRequested
    | KeepAliveChanged
    | RequestLeft
    | AboutLaunch
    | DevicesChanged
    | YieldRequested
    | YieldEnded
    | PromptProcessed
    | ClockReached
    | AboutCatalog
    | ShutdownRequested
    | HandoverRequested
    | HandoverCancelled
    | HandoverReceived
    | ServerAdopted
    | HandoverCompleted
)
