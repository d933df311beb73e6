"""What the routes need from the rest of hotseat, and the FastAPI dependencies that hand it to them.

app.py fills ApiDeps; routes only use it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar
from urllib.parse import unquote

from fastapi import Depends, Request

from hotseat.activity.usage import HELD, SIGNED_IN, Account
from hotseat.errors import Forbidden
from hotseat.fleet.host_headers import FROM_HOST
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from hotseat.activity.recent import Activity, Finished, InProgress
    from hotseat.activity.usage_store import By, UsageRow
    from hotseat.catalog.spec import ModelSpec
    from hotseat.config.reload import ConfigReport, ReloadResult
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.journal import Journal
    from hotseat.errors import HostUnresponsive
    from hotseat.estimates.report import Estimate
    from hotseat.fleet.model_outlook import Outlook
    from hotseat.fleet.view import FleetConnection, FleetView, Order, Sighting
    from hotseat.identifiers import Bytes, ClientId, HostName, LogLine, ModelName, Place, Seconds
    from hotseat.model_files.facts import ModelFacts
    from hotseat.settings import ApiKey, Settings

T = TypeVar("T")


class Restarts(Protocol):
    """Attempts to replace this process by a new one."""

    attempts: int
    problem: str

    @property
    def is_in_progress(self) -> bool: ...

    @property
    def serving_pid(self) -> int: ...

    async def restart(self) -> int:
        """The pid of the new process."""


class CreatedKeys(Protocol):
    """The API keys that were created while hotseat runs, and are kept across restarts."""

    def names(self) -> frozenset[str]: ...

    def is_proven(self, proof: str) -> bool:
        """Does the caller run as the user who runs hotseat?"""

    async def create(self, key: ApiKey, check: Callable[[], None]) -> str:
        """The secret of the new key. `check` is called once no other change is in progress, and may raise."""

    async def rotate(self, name: str, check: Callable[[], None]) -> str:
        """The new secret."""

    async def revoke(self, name: str, check: Callable[[], None]) -> None: ...


class LogSource(Protocol):
    """One model server's output, or hotseat's own log."""

    def newest(self, lines: int) -> Iterator[LogLine]:
        """The newest first, at most `lines` of them."""

    def follow(self) -> AsyncGenerator[LogLine, None]: ...


class Logs(Protocol):
    """Has a source for every configured model, including one that never ran."""

    @property
    def own(self) -> LogSource: ...

    def of_model(self, model: ModelName) -> LogSource: ...
    def all(self) -> Sequence[LogSource]: ...


class Precedence(Protocol):
    """Makes models yield memory."""

    def yield_memory(self, reason: str, places: frozenset[Place] = frozenset()) -> None: ...

    def resume(self) -> str:
        """The remaining reason for which models yield; empty: none."""


class OtherHosts(Protocol):
    """Asks the other hosts of the fleet with a proof of being a host."""

    def names(self) -> list[HostName]: ...

    async def read_all(
        self, hosts: Iterable[HostName], path: str, kept: Callable[[bytes], T]
    ) -> dict[HostName, T | HostUnresponsive]:
        """What is kept of each host's answer, or the problem: no answer in time, or one that `kept` cannot read.

        `kept` gets each answer in a turn of the event loop of its own, and raises ValueError if it cannot read it.
        """

    def follow(self, host: HostName, path: str) -> AsyncGenerator[bytes, None]:
        """The lines of a feed of that host; HostUnresponsive if it breaks off."""


class FleetAdmin(Protocol):
    """Operators' access to the fleet. Each method raises HotseatError with an explanation if it fails."""

    @property
    def name(self) -> HostName: ...

    @property
    def connection(self) -> FleetConnection: ...

    def view(self) -> FleetView: ...

    async def give(self, host: str, order: Order) -> bool:
        """Is the host in the fleet now? Else it obeys when it joins."""

    async def take_back(self, host: str, order: Order) -> None: ...

    async def move(self, model: str, to: str) -> str:
        """Returns a description of what was done."""

    def sightings(self, model: ModelName) -> list[Sighting]:
        """The other hosts that hold the model."""

    def offering(self, model: ModelName) -> list[HostName]:
        """The other hosts that may run it."""

    async def model_details(self, host: HostName, model: ModelName) -> dict[str, Any]:
        """What another host's API reports about a model. Raises HostUnresponsive with the problem."""

    @property
    def others(self) -> OtherHosts: ...

    def resolve(self, model: str) -> ModelName:
        """The model with this name or alias anywhere in the fleet."""

    def outlooks(self, model: ModelName) -> list[Outlook]:
        """What each host can do for the model, by name."""

    async def restart(self, host: str, by: ClientId) -> str:
        """Restart another host in the name of a key's holder; returns a description when it is back."""


@dataclass(frozen=True, slots=True)
class ApiDeps:
    dispatcher: Dispatcher
    journal: Journal
    settings: Callable[[], Settings]
    """Called each time, since a reload changes the result."""
    logs: Logs
    activity: Activity
    in_progress: Callable[[], Sequence[InProgress]]
    """Every request to a model that has not ended."""
    history: Callable[[float, str | None, int], Awaitable[Sequence[Finished]]]
    """The newest requests that ended after a time, of one model or all, oldest first, up to a limit."""
    usage: Callable[[date, date, Collection[By], int], Awaitable[Sequence[UsageRow]]]
    """The sums of these days, both included, up to a limit."""
    estimate: Callable[[ModelSpec], Awaitable[Estimate]]
    """The estimated memory of a model, line by line; raises CannotEstimate."""
    facts: Callable[[Sequence[ModelSpec]], Awaitable[Mapping[ModelName, ModelFacts]]]
    """What the files of these models say; without those whose files are missing or unknown."""
    config: Callable[[], ConfigReport]
    reload: Callable[[], Awaitable[ReloadResult]]
    precedence: Precedence
    restarts: Restarts
    keys: CreatedKeys
    accounts: Callable[[], Sequence[Account]]
    """Of the configured keys."""
    metrics: Callable[[], Awaitable[bytes]]
    """Prometheus text."""
    upstream_metrics: Callable[[], Awaitable[bytes]]
    """Prometheus text that the ready model servers print."""
    is_closing: Callable[[], bool]
    """Has the shutdown begun?"""
    started_at: float
    """Wall-clock time."""
    has_reload_failed: Callable[[], bool] = lambda: False
    """Did the last reload have errors?"""
    share_read: Callable[[ModelName], float | None] = lambda _: None
    """The share of its files that a loading server has read; None if unknown."""
    context: Callable[[ModelName], int | None] = lambda _: None
    """Tokens of one request, as a model's last server reported; None if unknown."""
    conversations: Callable[[ModelName], tuple[int, Bytes]] = lambda _: (0, 0)
    """How many conversations of a model are kept on disk, and their size."""
    silent: Callable[[], Mapping[ModelName, Seconds]] = dict
    """Models whose server answers neither requests nor its health check, and for how long."""
    guard_silent_s: Callable[[], Seconds] = lambda: 0.0
    """How long the guard has answered nothing although it was asked to."""
    fleet: Callable[[], FleetAdmin | None] = lambda: None
    """None: this host is not in a fleet."""
    feeds_end: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when another process has taken over: clients of endless feeds must connect to it."""
    tasks: Tasks = field(default_factory=Tasks)
    """Owns what goes on after its response was sent."""


def deps_of(request: Request) -> ApiDeps:
    deps: ApiDeps = request.app.state.deps
    return deps


Deps = Annotated[ApiDeps, Depends(deps_of)]


def account_of(request: Request, deps: Deps) -> Account | None:
    """The account of the admitted key; None if no keys are configured."""
    held = request.headers.get(HELD)
    if held is None:
        return None
    for account in deps.accounts():
        if account.digest.hex() == held:
            return account
    raise Forbidden("this API key was just revoked")


Caller = Annotated[Account | None, Depends(account_of)]


def permitted(name: str, deps: ApiDeps, caller: Account | None) -> ModelSpec:
    """The local model with this name. Whoever may not use what it means is not told that this is a model elsewhere."""
    catalog = deps.dispatcher.catalog
    if caller is not None and (meant := catalog.meant(name)) is not None:
        caller.check_may_use(meant.name)
    return catalog.resolve(name)


def from_host(request: Request) -> str | None:
    """The host of the fleet that sent the request, and has proven it to the relay; None: a client."""
    return request.headers.get(FROM_HOST.decode())


FromHost = Annotated[str | None, Depends(from_host)]


def sender_of(request: Request, caller: Caller) -> str | None:
    """The name of the key, or of who has signed in at a proxy; None: everybody is anonymous, or a host asks."""
    user = request.headers.get(SIGNED_IN)
    if user is not None:
        return unquote(user, encoding="latin-1")
    return None if caller is None else caller.name


Sender = Annotated[str | None, Depends(sender_of)]


def check_may_act_on_all(caller: Caller) -> None:
    if caller is not None:
        caller.check_may_act_on_all()


FOR_ALL_MODELS = Depends(check_may_act_on_all)
"""For routes that stop, hide or move models that the caller did not name."""
