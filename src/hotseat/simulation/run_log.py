"""The record of a simulation: every request and every process with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, LaunchId, ModelName, TicketId


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


@dataclass(slots=True)
class Stay:
    """One process of a model."""

    model: ModelName
    launch: LaunchId
    asked: Instant
    """When the scheduler asked for it; it may wait for the disk."""
    ready: Instant | None = None
    draining: Instant | None = None
    stopping: Instant | None = None
    gone: Instant | None = None


@dataclass(frozen=True, slots=True)
class Run:
    requests: tuple[Request, ...]
    stays: tuple[Stay, ...]
    batches: frozenset[str] = frozenset()
    """Clients whose last response counts, not each of them."""
