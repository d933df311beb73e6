"""The wishes. Imperative, each with its reason: the dispatcher carries them out, `hotseat why` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import ClientId, Instant, LaunchId, ModelName, Seconds, TicketId, Upstream


@dataclass(frozen=True, slots=True)
class Grant:
    """Give the ticket a lease on a ready upstream."""

    ticket: TicketId
    model: ModelName
    upstream: Upstream
    because: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Tell the operator that the model is as wished: ready after a load, gone after an unload."""

    ticket: TicketId
    model: ModelName
    because: str


@dataclass(frozen=True, slots=True)
class Refuse:
    ticket: TicketId
    error: HotseatError
    because: str


@dataclass(frozen=True, slots=True)
class Cut:
    """End this lease's exchange visibly: its time to finish is over, or its server is of no use."""

    ticket: TicketId
    model: ModelName
    because: str
    error: HotseatError | None = None
    """What the client is told; None: that the model was unloaded."""


@dataclass(frozen=True, slots=True)
class StartUpstream:
    model: ModelName
    launch: LaunchId
    spec: ModelSpec
    because: str


class Cause(Enum):
    """Why a server is stopped, for those who count; `because` is the same for those who read."""

    EVICTION = "eviction"
    CROWDED = "crowded"
    """More was taken than there is: others came, or a model grew."""
    YIELD = "yield"
    TTL = "ttl"
    OPERATOR = "operator"
    CONFIGURATION = "configuration"
    SHUTDOWN = "shutdown"
    UNRESPONSIVE = "unresponsive"
    """It answered nobody any more."""
    SLEEPLESS = "sleepless"
    """It slept and could not be woken: it is started anew."""


@dataclass(frozen=True, slots=True)
class StopUpstream:
    model: ModelName
    launch: LaunchId
    cause: Cause
    because: str


@dataclass(frozen=True, slots=True)
class PutToSleep:
    """Let the server give its room back and keep its process. Nobody uses it any more: it is drained first."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    because: str


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Make a server that sleeps ready again, in the way that belongs to how it was put to sleep."""

    model: ModelName
    launch: LaunchId
    level: SleepLevel
    because: str


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """Bring the model's files near while others make room for it; its start ends that by itself."""

    model: ModelName
    spec: ModelSpec
    because: str


@dataclass(frozen=True, slots=True)
class StopReading:
    """Leave the rest of the model's files where they are: nobody wants them any more, or they are not the same."""

    model: ModelName
    because: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """A model that made room, and why it was the cheapest that could."""

    model: ModelName
    because: str
    age_s: Seconds
    """How long it had been ready."""
    load_s: Seconds
    """What loading it again takes."""
    served: int
    """Requests in the turn that ended."""

    @property
    def is_early(self) -> bool:
        """It was there for a shorter time than loading it took: that is thrash."""
        return self.age_s < self.load_s


@dataclass(frozen=True, slots=True)
class ReportSwap:
    """A swap is complete: write down what it was for and what it cost."""

    model: ModelName
    client: ClientId | None
    """Whose request was the oldest; None: nobody waits any more."""
    waited_s: Seconds
    """From the claim to the ready server."""
    predicted_s: Seconds
    measured_s: Seconds
    evicted: tuple[Evicted, ...]
    because: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Tell ClockReached then; replaces every earlier wish."""

    when: Instant


Command: TypeAlias = (
    Grant
    | Confirm
    | Refuse
    | Cut
    | StartUpstream
    | StopUpstream
    | PutToSleep
    | WakeUp
    | ReadAhead
    | StopReading
    | ReportSwap
    | WakeAt
)
