"""What the scheduler of one process tells that of the next, which adopts its servers, so that no model is unloaded.

It is JSON, and the two processes may be of different versions of hotseat: unknown fields are ignored. Times are ages:
the two processes need not share a clock. It contains commands with their environment, so it may only be sent where
nobody else reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct, field

from hotseat.catalog.spec import GpuChoice, LaunchRecipe, ModelSpec
from hotseat.errors import HotseatError
from hotseat.identifiers import Bytes, ClientId, LaunchId, ModelName, Place, Seconds, TicketId
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.queue import RequestKind

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Increased when a reader of the version before would decide wrongly; new fields with defaults do not need that."""
Sizes: TypeAlias = tuple[tuple[Place, Bytes], ...]
"""Memory by place; JSON has no such keys."""


def sizes(memory: Mapping[Place, Bytes] | None) -> Sizes | None:
    return None if memory is None else tuple(memory.items())


def by_place(known: Sizes | None) -> dict[Place, Bytes] | None:
    return None if known is None else dict(known)


class ProcessSpec(Struct, frozen=True):
    """What a process was started with: whether it must be replaced, and how it counts and ends until then."""

    recipe: LaunchRecipe
    memory: Sizes | None = None
    estimated: Sizes | None = None
    per_gpu: Bytes = 0
    gpu_count: int | None = None
    gpus: tuple[Place, ...] | None = None
    """The cards among which hotseat chose; None: it did not."""
    concurrency_limit: int | None = None
    ttl_s: Seconds | None = None
    drain_timeout_s: Seconds = 10.0
    unload_timeout_s: Seconds = 10.0

    @classmethod
    def of(cls, spec: ModelSpec) -> ProcessSpec:
        return cls(
            recipe=spec.recipe,
            memory=sizes(spec.memory),
            estimated=sizes(spec.estimated),
            per_gpu=spec.per_gpu,
            gpu_count=spec.gpus.count if spec.gpus else None,
            gpus=spec.gpus.among if spec.gpus else None,
            concurrency_limit=spec.concurrency_limit,
            ttl_s=spec.ttl_s,
            drain_timeout_s=spec.drain_timeout_s,
            unload_timeout_s=spec.unload_timeout_s,
        )

    def as_spec(self, name: ModelName) -> ModelSpec:
        """Everything else is as by default: a process that is not replaced follows the catalog."""
        return ModelSpec(
            name,
            self.recipe,
            memory=by_place(self.memory),
            estimated=by_place(self.estimated),
            per_gpu=self.per_gpu,
            gpus=None if self.gpus is None else GpuChoice(self.gpu_count, self.gpus),
            concurrency_limit=self.concurrency_limit,
            ttl_s=self.ttl_s,
            drain_timeout_s=self.drain_timeout_s,
            unload_timeout_s=self.unload_timeout_s,
        )


class HeldLease(Struct, frozen=True):
    """A request in flight. The previous process forwards it to its end."""

    ticket: TicketId
    client: ClientId
    held_s: Seconds = 0.0
    takes_slot: bool = True


class Departure(Struct, frozen=True):
    """Why a server drains."""

    cause: Cause
    reason: str
    cut_in_s: Seconds | None = None
    """Until its leases are cut for an operator; None: they are not."""


class LevelRecord(Struct, frozen=True):
    """A sleep level: its name, and what a server keeps at it, in case that it is not configured any more."""

    name: str
    memory: Sizes | None = None
    keeps_weights: bool = True


class ServerRecord(Struct, frozen=True):
    """A server that is ready, drains or sleeps."""

    model: ModelName
    launch: LaunchId
    spec: ProcessSpec
    level: LevelRecord | None = None
    """At which it sleeps or, with a departure, will sleep."""
    departure: Departure | None = None
    """None: it does not drain."""
    phase_s: Seconds = 0.0
    """How long it has been ready, draining or asleep."""
    ready_s: Seconds = 0.0
    """How long ago it became ready."""
    idle_s: Seconds = 0.0
    """How long it has had no lease, if it has none."""
    claimed_s: Seconds | None = None
    """How long ago the claim for which it was loaded began; None: not known."""
    served: int = 0
    has_keep_alive: bool = False
    """A client has said how long it stays loaded."""
    keep_alive_s: Seconds | None = None
    fell_asleep_in_s: Seconds | None = None
    slots_reported: int | None = None
    gpus: tuple[Place, ...] = ()
    given: Sizes | None = None
    measured: Sizes | None = None
    has_answered: bool = False
    leases: tuple[HeldLease, ...] = ()


class WaitingTicket(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    client: ClientId
    kind: RequestKind = RequestKind.USE
    waited_s: Seconds = 0.0
    is_batch: bool = False


class WaitingUnload(Struct, frozen=True):
    """An operator who waits for the end of a server."""

    ticket: TicketId
    model: ModelName
    force: bool = False


class Failure(Struct, frozen=True):
    """What of a model has failed: starts in a row, sleep levels, and keeping its conversations."""

    model: ModelName
    failures: int
    retry_in_s: Seconds = 0.0
    """Until its backoff ends; 0: it is not backing off."""
    why: str = ""
    last_error: str = ""
    may_pass: bool = True
    sleep_levels: tuple[str, ...] = ()
    useless_restores: int = 0
    keeps_none_because: str = ""


class FailedModel(Struct, frozen=True):
    failure: Failure
    spec: ProcessSpec
    """What failed: a changed one is tried at once."""


class Eviction(Struct, frozen=True):
    """When a model that requests wait for was last evicted: its claim counts from there, so that models rotate."""

    model: ModelName
    ago_s: Seconds


class Yielding(Struct, frozen=True):
    reason: str
    places: tuple[Place, ...] = ()
    for_program: bool = False


class Handover(Struct, frozen=True):
    last_launch: int = 0
    """Launches are numbered on, so that no number means two processes."""
    servers: tuple[ServerRecord, ...] = ()
    waiting: tuple[WaitingTicket, ...] = ()
    """The tickets of each model in the order of service."""
    unloads: tuple[WaitingUnload, ...] = ()
    failed: tuple[FailedModel, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    yields: tuple[Yielding, ...] = ()
    saved: tuple[ModelName, ...] = ()
    """Models of which conversations were saved."""
    available: Sizes = ()
    """What other programs leave, where that is less than the budget."""
    budgets: Sizes | None = None
    """With which models ran or failed alone; None: not told."""


class UnreadableHandover(HotseatError):
    """The next process cannot adopt the servers of this one."""

    code = "unreadable_handover"
    retry_helps = False


class _Envelope(Struct, frozen=True):
    version: int
    handover: Handover = field(default_factory=Handover)


_DECODER = msgspec.json.Decoder(_Envelope)


def to_json(handover: Handover) -> bytes:
    return msgspec.json.encode(_Envelope(VERSION, handover))


def from_json(text: bytes) -> Handover:
    """UnreadableHandover: it is of another version, or not a handover."""
    try:
        found = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableHandover(f"the handover of the previous process cannot be read: {error}") from error
    if found.version != VERSION:
        raise UnreadableHandover(f"the handover has version {found.version}, and this hotseat reads {VERSION}")
    return found.handover
