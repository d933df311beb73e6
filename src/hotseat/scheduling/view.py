"""An immutable picture of the scheduler's state, for whoever shows it: API, dashboard, metrics, command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.catalog.spec import Footprint
    from hotseat.identifiers import (
        Bytes,
        ClientId,
        Instant,
        LaunchId,
        ModelName,
        Place,
        Seconds,
        TicketId,
        Upstream,
    )
    from hotseat.scheduling.lifecycle import Phase


@dataclass(frozen=True, slots=True)
class ModelView:
    name: ModelName
    phase: Phase
    since: Instant
    """When the phase began."""
    upstream: Upstream | None
    in_flight: int
    waiting: int
    why: str
    """One sentence: why it is in this phase, or why those who wait for it wait."""
    failures: int = 0
    """Failed starts and crashes in a row."""
    last_error: str = ""
    expires_at: Instant | None = None
    """When its ttl ends, if nobody uses it until then."""
    last_used: Instant = 0.0
    """Now for a model in use, else when its last request ended or it became ready."""
    load_s: Seconds | None = None
    """How long it takes to load, as measured; None: never seen."""
    footprint: Footprint | None = None
    """What it counts as; None: unknown, so it takes a whole device."""
    estimated: Mapping[Place, Bytes] | None = None
    """What its files and its command line let expect."""
    measured: Mapping[Place, Bytes] | None = None
    """What its present process was seen to take."""
    launch: LaunchId | None = None
    """Its present process life."""
    served: int = 0
    """Requests granted in it."""
    level: str | None = None
    """How it sleeps, or will when it is drained; None: it does not."""

    @property
    def is_running(self) -> bool:
        """`running` as the HTTP contract means it."""
        return self.phase.value == "ready"


class InUse(NamedTuple):
    """A server that requests are at."""

    model: ModelName
    launch: LaunchId
    upstream: Upstream
    check_endpoint: str | None
    """None: it has no health check."""


@dataclass(frozen=True, slots=True)
class TicketView:
    ticket: TicketId
    model: ModelName
    client: ClientId
    since: Instant
    why: str
    """Exactly one reason, in one sentence."""
    expected_in_s: Seconds | None = None
    """When it will probably be served; None: nothing to go by."""
    not_later_than: Instant | None = None
    """What can be promised to the head of a line, as long as requests and loads take no longer than they did."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    place: Place
    budget: Bytes
    available: Bytes
    """What models may take now: less than the budget where others use the device."""
    taken: Bytes
    """What the models that are there count as."""


@dataclass(frozen=True, slots=True)
class View:
    now: Instant
    models: tuple[ModelView, ...]
    line: tuple[TicketView, ...]
    """Who waits, oldest first."""
    devices: tuple[DeviceView, ...] = ()
    """Those with a budget."""
    making_way: str = ""
    """For whom models have to be gone; empty: nobody."""

    def model(self, name: ModelName) -> ModelView:
        return next(model for model in self.models if model.name == name)

    def running(self) -> tuple[ModelView, ...]:
        return tuple(model for model in self.models if model.is_running)
