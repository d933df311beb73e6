"""What the routes need of the house around them. The composition root fills it; the routes only read and ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

    from hotseat.activity.recent import Activity, Finished, UnderWay
    from hotseat.activity.usage import Account
    from hotseat.config.reload import ConfigReport, ReloadResult
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.journal import Journal
    from hotseat.fleet.view import FleetView, Order, Sighting, Standing
    from hotseat.identifiers import HostName, ModelName, Place, Seconds
    from hotseat.settings import Settings


class Logs(Protocol):
    """What the model servers print. Every configured model may be asked for, also one that never ran."""

    def models(self) -> Iterable[ModelName]: ...
    def tail(self, model: ModelName, lines: int) -> list[str]: ...
    def follow(self, model: ModelName) -> AsyncGenerator[str, None]: ...


class Precedence(Protocol):
    """Lets models make way for somebody."""

    def make_way(self, because: str, places: frozenset[Place] = frozenset()) -> None: ...

    def resume(self) -> str:
        """Returns for whom models make way all the same; empty: for nobody."""


class FleetDesk(Protocol):
    """Where operators ask about the fleet; each raises HotseatError with a sentence where it cannot."""

    @property
    def name(self) -> HostName: ...

    @property
    def standing(self) -> Standing: ...

    def view(self) -> FleetView: ...
    async def give(self, host: str, order: Order) -> None: ...
    async def take_back(self, host: str, order: Order) -> None: ...

    async def move(self, model: str, to: str) -> str:
        """Says what was done."""

    def sightings(self, model: ModelName) -> list[Sighting]:
        """Where else a model is."""

    def offering(self, model: ModelName) -> list[HostName]:
        """Who else may run it."""

    async def story(self, host: HostName, model: ModelName) -> dict[str, Any] | None:
        """What another host says of a model, as its API answers; None where it does not, within a short time."""


@dataclass(frozen=True, slots=True)
class House:
    dispatcher: Dispatcher
    journal: Journal
    settings: Callable[[], Settings]
    """Asked each time: a reload changes the answer."""
    logs: Logs
    activity: Activity
    under_way: Callable[[], Sequence[UnderWay]]
    """Every request to a model that has not ended."""
    history: Callable[[float, str | None, int], Awaitable[Sequence[Finished]]]
    """The newest that ended after a moment, of one model or of all, oldest first; as many as that at most."""
    config: Callable[[], ConfigReport]
    reload: Callable[[], Awaitable[ReloadResult]]
    precedence: Precedence
    accounts: Callable[[], Sequence[Account]]
    """Of the keys that are configured."""
    metrics: Callable[[], bytes]
    """Prometheus text."""
    is_closing: Callable[[], bool]
    """Has the shutdown begun?"""
    started_at: float
    """Wall-clock time."""
    share_read: Callable[[ModelName], float | None] = lambda _: None
    """The part of its files that a loading server has read; None where nobody can tell."""
    silent: Callable[[], Mapping[ModelName, Seconds]] = dict
    """Models whose server answers neither requests nor its health check, and for how long."""
    fleet: Callable[[], FleetDesk | None] = lambda: None
    """None: this host is alone."""
