"""What the dispatcher must do. Each command has a reason, which `hotseat why` and the journal show."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import ClientId, Instant, LaunchId, ModelName, Place, Seconds, TicketId, Upstream


class Grant(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    upstream: Upstream
    reason: str


class Confirm(Struct, frozen=True):
    """Tell the operator that the load has finished, or that the unload has."""

    ticket: TicketId
    model: ModelName
    reason: str


class Refuse(Struct, frozen=True):
    ticket: TicketId
    error: HotseatError
    reason: str


class Cut(Struct, frozen=True):
    """End a lease visibly: its drain timeout is over or its server is unresponsive."""

    ticket: TicketId
    model: ModelName
    reason: str
    error: HotseatError | None = None
    """What the client sees; None: the model was unloaded."""


class StartUpstream(Struct, frozen=True):
    model: ModelName
    launch: LaunchId
    spec: ModelSpec
    reason: str
    gpus: tuple[Place, ...] = ()
    """The cards that the server may use; empty: all."""
    alone: bool = False
    """Its guess is larger than the memory that it gets: the guess must not keep it from starting."""


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


class StopUpstream(Struct, frozen=True):
    model: ModelName
    launch: LaunchId
    cause: Cause
    reason: str
    unload_timeout_s: Seconds | None = None
    """As configured now; None: as when the server was started."""


class PutToSleep(Struct, frozen=True):
    """Free the server's memory and keep its process. The server is drained first."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    reason: str


class WakeUp(Struct, frozen=True):
    """Wake a sleeping server with the wake requests of its sleep level."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    reason: str


class Allowance(Struct, frozen=True):
    """What it may cost to save or restore the conversations of a model."""

    within_s: Seconds
    """For all of them together."""
    least_tokens: int
    """Shorter conversations are not worth it."""
    token_s: Seconds
    """Expected time per token."""


class SaveConversations(Struct, frozen=True):
    """Write the used slots of a drained server to disk, the longest conversation first, before it is stopped."""

    model: ModelName
    launch: LaunchId
    allowance: Allowance
    reason: str


class RestoreConversations(Struct, frozen=True):
    """Read saved conversations, the last used first, into the slots of a server before its first request."""

    model: ModelName
    launch: LaunchId
    allowance: Allowance
    reason: str


class ReadAhead(Struct, frozen=True):
    """Read the model's files into the page cache while memory is freed; starting it ends this."""

    model: ModelName
    spec: ModelSpec
    reason: str


class StopReading(Struct, frozen=True):
    """Stop reading: no request waits for the model, or its configuration changed."""

    model: ModelName
    reason: str


class Evicted(Struct, frozen=True):
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


class ReportSwap(Struct, frozen=True):
    """A model that others were evicted for is ready: record the cause and the cost."""

    model: ModelName
    client: ClientId | None
    """Client of the oldest waiting request; None: no request waits."""
    waited_s: Seconds
    """From the claim until the server was ready."""
    predicted_s: Seconds | None
    """None: it was loaded for the first time."""
    measured_s: Seconds
    evicted: tuple[Evicted, ...]
    reason: str


class ReportFailure(Struct, frozen=True):
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


class WakeAt(Struct, frozen=True):
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
