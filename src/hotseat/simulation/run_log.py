"""What the house writes down while it plays a trace: every request and every process life, with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Instant, LaunchId, ModelName, TicketId


@dataclass(slots=True)
class Request:
    """One request and its times; None: that never happened."""

    ticket: TicketId
    client: str
    model: ModelName
    service: float
    arrived: Instant
    started: Instant | None = None
    finished: Instant | None = None
    """When its answer was complete; None for those who were refused, cut or left waiting."""


@dataclass(slots=True)
class Stay:
    """One process life of a model."""

    model: ModelName
    launch: LaunchId
    asked: Instant
    """When the decider wanted it; a busy disk may let it wait."""
    ready: Instant | None = None
    draining: Instant | None = None
    stopping: Instant | None = None
    gone: Instant | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a trace."""

    requests: tuple[Request, ...]
    stays: tuple[Stay, ...]
