"""An immutable snapshot of the scheduler's state for API, dashboard, metrics and command line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

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


class ConversationsView(Struct, frozen=True):
    """The conversations of a model that keeps them, since its figures are kept."""

    saved: int
    restored: int
    reused: int
    """Restored ones that were continued."""
    gained_s: Seconds
    """Time that clients would have waited for prompts to be computed again."""
    problem: str
    """Why they are not saved any more; empty: they are."""


class ModelView(Struct, frozen=True):
    name: ModelName
    phase: Phase
    since: Instant
    """When the phase began."""
    upstream: Upstream | None
    in_flight: int
    waiting: int
    why: str
    """One sentence: why it is in this phase, or why its requests wait."""
    failures: int = 0
    """Consecutive failed starts and crashes."""
    last_error: str = ""
    retry_at: Instant | None = None
    """When its backoff ends; None: it is not backing off."""
    expires_at: Instant | None = None
    """End of its ttl if it stays unused."""
    ttl_s: Seconds | None = None
    """Idle time until it is unloaded: a client's `keep_alive`, or else as configured; None: never."""
    last_used: Instant = 0.0
    """Now for a model in use, else when its last request ended or it became ready."""
    load_s: Seconds | None = None
    """Measured load time; None: never loaded."""
    footprint: Footprint | None = None
    """Memory it counts as; None: unknown, so it takes a whole device."""
    estimated: Mapping[Place, Bytes] | None = None
    """Estimate from its files and command line."""
    measured: Mapping[Place, Bytes] | None = None
    """Measured memory of its current process."""
    launch: LaunchId | None = None
    """Its current process."""
    served: int = 0
    """Requests granted to it."""
    slots: int | None = None
    """Requests that it processes at a time, as configured or as its server reports; None: unknown."""
    level: str | None = None
    """Its sleep level if it sleeps or will sleep; else None."""
    conversations: ConversationsView | None = None
    """None: it keeps none."""
    gpus: tuple[Place, ...] = ()
    """The cards that were chosen for its current process; empty: none were."""
    is_adopted: bool = False
    """The previous process of hotseat has started its current process."""

    @property
    def is_running(self) -> bool:
        """`running` in the sense of the HTTP contract: until its server is told to stop."""
        return self.phase.value in ("ready", "draining")


class InUse(NamedTuple):
    """A server with requests in flight."""

    model: ModelName
    launch: LaunchId
    upstream: Upstream
    check_endpoint: str | None
    """None: no health check."""


class TicketView(Struct, frozen=True):
    ticket: TicketId
    model: ModelName
    client: ClientId
    since: Instant
    why: str
    """One reason, in one sentence."""
    expected_in_s: Seconds | None = None
    """Estimated time until it is served; None: unknown."""
    not_later_than: Instant | None = None
    """Latest time for the first ticket, if requests and loads take no longer than before."""


class DeviceView(Struct, frozen=True):
    place: Place
    budget: Bytes
    available: Bytes
    """What models may use now: less than the budget if other programs use the device."""
    reserved: Bytes
    """Memory that loaded models count as."""


@dataclass(frozen=True)
class View:
    now: Instant
    models: tuple[ModelView, ...]
    queue: tuple[TicketView, ...]
    """Waiting tickets, oldest first."""
    devices: tuple[DeviceView, ...] = ()
    """Devices with a budget."""
    yielding: str = ""
    """Why models must yield memory; empty: they need not."""

    def model(self, name: ModelName) -> ModelView:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> Mapping[ModelName, ModelView]:
        return {model.name: model for model in self.models}

    def running(self) -> tuple[ModelView, ...]:
        return tuple(model for model in self.models if model.is_running)
