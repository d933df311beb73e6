"""A fleet in one process: hosts with their own dispatchers and fake launchers, and one in-process store."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.fake_launcher import FakeLauncher, catalog, spec
from tests.support.in_process_store import Board, InProcess
from tests.support.waiting import come_true

from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HostUnresponsive
from hotseat.fleet.member import PathState
from hotseat.fleet.node import FleetNode
from hotseat.fleet.own_state import UnsavedState
from hotseat.identifiers import HostName
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.admin import FleetAdmin
    from hotseat.identifiers import Address, ModelName

SECRET = "hush"
MODELS = (spec("qwen", aliases=("q",)), spec("llama"))


@dataclass
class Host:
    dispatcher: Dispatcher
    journal: Journal
    launcher: FakeLauncher
    store: InProcess
    node: FleetNode
    own: UnsavedState

    @property
    def fleet_admin(self) -> FleetAdmin:
        return self.node.fleet_admin

    def running(self) -> list[str]:
        return [model.name for model in self.dispatcher.views.current().running()]

    def phases_seen(self, host: str) -> dict[str, str]:
        """The phases on a host, as this one knows them."""
        [seen] = [each for each in self.fleet_admin.view().hosts if each.name == host]
        return {resident.model: resident.phase for resident in seen.residents}


@dataclass
class InProcessFleet:
    """Hosts by name."""

    board: Board
    hosts: dict[str, Host] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    """Hosts that do not answer."""
    states: dict[str, PathState] = field(default_factory=dict)
    """What the answers of a host show."""

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    async def until_met(self) -> None:
        """Return when each host knows all others."""
        await come_true(
            lambda: all(len(host.fleet_admin.view().hosts) == len(self.hosts) for host in self.hosts.values())
        )


class InProcessFleetClient:
    """A fleet client without sockets: it calls the other dispatchers directly."""

    def __init__(self, fleet: InProcessFleet) -> None:
        self._fleet = fleet

    async def path_to(self, address: Address) -> PathState:
        if self._at(f"http://{address.host}") is None:
            return PathState("timeout")
        return self._fleet.states.get(address.host, PathState())

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any]:
        there = self._at(address)
        if there is None:
            raise HostUnresponsive(f"{host} did not answer (timeout)")
        seen = there.dispatcher.views.of(model)
        return {"phase": seen.phase.value, "why": seen.why, "last_error": seen.last_error}

    async def stop(self, host: HostName, address: str, model: ModelName) -> None:
        there = self._at(address)
        if there is None:
            raise HostUnresponsive(f"{address} did not answer")
        await there.dispatcher.operator.unload(model)

    def _at(self, address: str) -> Host | None:
        name = address.removeprefix("http://")
        return None if name in self._fleet.silent else self._fleet[name]


@asynccontextmanager
async def in_process_fleet(
    *names: str,
    models: Callable[[str], Sequence[ModelSpec]] = lambda _: MODELS,
    launcher: Callable[[str], FakeLauncher] = lambda _: FakeLauncher(),
    address: Callable[[str], str] = "http://{}".format,
    has_no_sockets: bool = True,
) -> AsyncIterator[InProcessFleet]:
    """Inside the block the hosts are a fleet and know each other."""
    fleet = InProcessFleet(Board(clock=asyncio.get_running_loop().time))
    fleet_client = InProcessFleetClient(fleet) if has_no_sockets else None
    async with AsyncExitStack() as stack:
        for name in names:
            made = fleet.hosts[name] = process_of(
                Fleet(("nats://nowhere",), HostName(name), address=address(name), secrets=(SECRET,)),
                InProcess(fleet.board),
                catalog(*models(name)),
                launcher(name),
                fleet_client,
            )
            stack.push_async_callback(made.dispatcher.shut_down, 0)
            await made.node.join()
            stack.push_async_callback(made.node.leave)
        await fleet.until_met()
        yield fleet


def process_of(
    settings: Fleet,
    store: InProcess,
    models: Catalog,
    launcher: FakeLauncher,
    fleet_client: InProcessFleetClient | None,
    token: str = "",
) -> Host:
    """One that has not joined yet; by default, with a token of its own."""
    journal, own = Journal(), UnsavedState()
    own.token = token or own.token
    dispatcher = Dispatcher(Scheduler(models), launcher, journal)
    node = FleetNode(settings, store, dispatcher, lambda: False, fleet_client, own)
    journal.listen(node.watch)
    return Host(dispatcher, journal, launcher, store, node, own)
