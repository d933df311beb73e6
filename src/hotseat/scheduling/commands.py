"""What the dispatcher must do. Each command has a reason, which `hotseat why` and the journal show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import ClientId, Instant, LaunchId, ModelName, Place, Seconds, TicketId, Upstream


@dataclass(frozen=True, slots=True)
class Grant:
    ticket: TicketId
    model: ModelName
    upstream: Upstream
    reason: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell the operator that the load has finished, or that the unload has."""

    ticket: TicketId
    model: ModelName
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    ticket: TicketId
    error: HotseatError
    reason: str


@dataclass(frozen=True, slots=True)
class Cut:
    """End a lease visibly: its drain timeout is over or its server is unresponsive."""

    ticket: TicketId
    model: ModelName
    reason: str
    error: HotseatError | None = None
    """What the client sees; None: the model was unloaded."""


@dataclass(frozen=True, slots=True)
class StartUpstream:
    model: ModelName
    launch: LaunchId
    spec: ModelSpec
    reason: str
    gpus: tuple[Place, ...] = ()
    """The cards that the server may use; empty: all."""


class Cause(Enum):
    """Why a server is stopped, as a label for metrics; `reason` is the sentence."""

    EVICTION = "eviction"
    EXCEEDS_MEMORY = "exceeds_memory"
    """Memory use exceeds the limit: other programs or a model took more."""
    YIELD = "yield"
    TTL = "ttl"
    OPERATOR = "operator"
    CONFIGURATION = "configuration"
    SHUTDOWN = "shutdown"
    UNRESPONSIVE = "unresponsive"
    WAKE_FAILED = "wake_failed"
    """Waking it failed; the next start is a cold one."""


@dataclass(frozen=True, slots=True)
class StopUpstream:
    model: ModelName
    launch: LaunchId
    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class PutToSleep:
    """Free the server's memory and keep its process. The server is drained first."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    reason: str


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Wake a sleeping server with the wake requests of its sleep level."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    reason: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """What it may cost to save or restore the conversations of a model."""

    within_s: Seconds
    """For all of them together."""
    least_tokens: int
    """Shorter conversations are not worth it."""
    token_s: Seconds
    """Expected time per token."""


@dataclass(frozen=True, slots=True)
class SaveConversations:
    """Write the used slots of a drained server to disk, the longest conversation first, before it is stopped."""

    model: ModelName
    launch: LaunchId
    allowance: Allowance
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreConversations:
    """Read saved conversations, the last used first, into the slots of a server before its first request."""

    model: ModelName
    launch: LaunchId
    allowance: Allowance
    reason: str


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Read the model's files into the page cache while memory is freed; starting it ends this."""

    model: ModelName
    spec: ModelSpec
    reason: str


@dataclass(frozen=True, slots=True)
class StopReading:
    """Stop reading: no request waits for the model, or its configuration changed."""

    model: ModelName
    reason: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """A model that was evicted, and why it was the cheapest choice."""

    model: ModelName
    reason: str
    age_s: Seconds
    load_s: Seconds
    """Expected time to load it again."""
    served: int
    """Requests granted since it was ready."""

    @property
    def is_early(self) -> bool:
        """True means thrashing: it was ready for less time than a load takes."""
        return self.age_s < self.load_s


@dataclass(frozen=True, slots=True)
class ReportSwap:
    """A model that others were evicted for is ready: record the cause and the cost."""

    model: ModelName
    client: ClientId | None
    """Client of the oldest waiting request; None: no request waits."""
    waited_s: Seconds
    """From the claim until the server was ready."""
    predicted_s: Seconds
    measured_s: Seconds
    evicted: tuple[Evicted, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """A start failed or a ready server exited by itself: tell the operator."""

    model: ModelName
    is_crash: bool
    """Had it been ready?"""
    after_s: Seconds
    """How long it had been loading or ready."""
    error: str
    output: tuple[str, ...]
    """Last output lines. They may contain prompts."""
    failures: int
    """In a row; 0: it had answered requests, so this one does not count."""
    retry_in_s: Seconds
    """0: the next request starts it."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send ClockReached at this time; replaces any earlier WakeAt."""

    when: Instant


RequestCommand: TypeAlias = Grant | Confirm | Refuse | Cut
ServerCommand: TypeAlias = (
    StartUpstream
    | StopUpstream
    | PutToSleep
    | WakeUp
    | SaveConversations
    | RestoreConversations
    | ReadAhead
    | StopReading
)
Command: TypeAlias = RequestCommand | ServerCommand | ReportSwap | ReportFailure | WakeAt
