"""The record of a simulation: every request and every process with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds, TicketId
    from hotseat.simulation.trace import Prompt


@dataclass(slots=True)
class Request:
    """A time is None if it never came."""

    ticket: TicketId
    client: str
    model: ModelName
    service: float
    arrived: Instant
    started: Instant | None = None
    finished: Instant | None = None
    """End of the response; None if it was refused, cut or left waiting."""
    prompt: Prompt | None = None
    recomputed_s: Seconds | None = None
    """In addition to `service`, for tokens that an earlier process had computed; None: unknown."""


@dataclass(slots=True)
class Stay:
    """One process of a model."""

    model: ModelName
    launch: LaunchId
    asked: Instant
    """When the scheduler asked for it; it may wait for the disk."""
    ready: Instant | None = None
    """With the conversations that were restored."""
    draining: Instant | None = None
    stopping: Instant | None = None
    """Or saving its conversations first."""
    gone: Instant | None = None


@dataclass(frozen=True, slots=True)
class Run:
    requests: tuple[Request, ...]
    stays: tuple[Stay, ...]
    batches: frozenset[str] = frozenset()
    """Clients whose last response counts, not each of them."""
