"""A simulated host: the production dispatcher, scheduler and fleet node; NATS, network and servers are simulated."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

from tests.support.catalogs import model, with_budget
from tests.support.fake_launcher import FakeLauncher

from hotseat.catalog.spec import Replicas
from hotseat.dispatch.dispatcher import Dispatcher
from hotseat.dispatch.journal import Journal
from hotseat.errors import HostUnresponsive, LoadFailed
from hotseat.fleet.member import PathState
from hotseat.fleet.node import FleetNode
from hotseat.fleet.other_hosts import DETAILS_S
from hotseat.fleet.store import NameTaken
from hotseat.fleet.view import FleetConnection, Order
from hotseat.identifiers import Address, HostName, Upstream
from hotseat.scheduling.commands import Cause
from hotseat.scheduling.events import UpstreamFailed, UpstreamReady
from hotseat.scheduling.scheduler import Scheduler
from hotseat.settings import Fleet
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.fleet_faults.network import SimulatedNats, SimulatedNetwork
    from bench.fleet_faults.rules import Rules

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.fleet.own_state import OwnState
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.scheduling.commands import StartUpstream, StopUpstream

NAMES = ("a", "b", "c", "d")
RARE = "rare"
ONLY = NAMES[-1]
"""The only host with the rare model."""
ALIAS = "chat"
"""Moves from one model to another with the second version."""
KEPT = "kept"
"""One replica is required by the first version, none by the second."""
BUDGET_GIB = 16


def specs(name: str, version: int) -> Iterator[ModelSpec]:
    first, second = ((ALIAS,), ()) if version == 1 else ((), (ALIAS,))
    yield model("small", gib=4, aliases=first)
    yield model("large", gib=10, aliases=second)
    yield model(KEPT, gib=6, replicas=Replicas(1 if version == 1 else 0, 1))
    if name == ONLY:
        yield model(RARE, gib=4)


def catalog_of(name: str, version: int) -> Catalog:
    return with_budget(*specs(name, version), gib=BUDGET_GIB)


def names_in(catalog: Catalog) -> set[str]:
    return {*catalog.models, *(alias for spec in catalog.models.values() for alias in spec.aliases)}


LOAD_S: Seconds = 4.0
STOP_S: Seconds = 0.3


class SimulatedLauncher(FakeLauncher):
    def __init__(self, awake: asyncio.Event, begins: Callable[[ModelName], None]) -> None:
        """`begins` is called at the begin of each load."""
        super().__init__()
        self._awake, self._begins = awake, begins
        self.stopped: dict[ModelName, Cause] = {}
        """Why each model was last stopped."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        name, launch = command.model, command.launch
        await self._awake.wait()
        self._begins(name)
        gone = self._gone[name] = asyncio.get_running_loop().create_future()
        await asyncio.wait([gone], timeout=LOAD_S)
        await self._awake.wait()
        if gone.done():
            return UpstreamFailed(name, launch, LoadFailed(f"{name} was stopped while it was loading"))
        return UpstreamReady(name, launch, Upstream(Address("127.0.0.1", 40_000 + launch), 7_000 + launch))

    async def stop(self, command: StopUpstream) -> None:
        self.stopped[command.model] = command.cause
        await asyncio.sleep(STOP_S)
        await self._awake.wait()
        await super().stop(command)


DRAIN_S: Seconds = 10.0
"""How long a host that stops waits for its requests."""
LOOK_S: Seconds = 0.1
SECRET = "the secret of the simulated fleet"
CALL_S: Seconds = 20.0
"""How long an operator's command waits for another host."""


class SimulatedHost:
    def __init__(
        self,
        nats: SimulatedNats,
        network: SimulatedNetwork,
        rules: Rules,
        name: str,
        version: int,
        own: OwnState,
        address: str = "",
    ) -> None:
        """By default, with the usual address of this name."""
        self.name, self.version = HostName(name), version
        self.awake = asyncio.Event()
        """Cleared: the host is stopped, as by SIGSTOP."""
        self.awake.set()
        self.is_alive, self.is_leaving, self.was_refused = True, False, False
        self.names_known: set[str] = set()
        """Names of other hosts' models that it has known."""
        self._launcher = SimulatedLauncher(self.awake, lambda model: rules.load_begins(self, model))
        journal = Journal()
        self.dispatcher = Dispatcher(Scheduler(catalog_of(name, version)), self._launcher, journal)
        settings = Fleet(("nats://nowhere",), self.name, address=address or f"http://{name}:8080", secrets=(SECRET,))
        store = nats.connect(self.name, self.awake)
        client, is_leaving = HostClient(self, network), lambda: self.is_leaving
        self.node = FleetNode(settings, store, self.dispatcher, is_leaving, client, own)
        journal.listen(self.node.watch)
        self._tasks = Tasks()
        self._tasks.start(self._join(), "join")

    @property
    def is_awake(self) -> bool:
        return self.is_alive and self.awake.is_set()

    @property
    def holds_name(self) -> bool:
        return self.is_alive and self.node.connection is FleetConnection.CONNECTED

    @property
    def orders(self) -> frozenset[Order]:
        """Those that it obeys."""
        order = self.node.roster.orders.of(self.name)
        given = {Order.CORDON: order.cordoned, Order.DRAIN: order.drained}
        return frozenset(each for each, is_given in given.items() if is_given)

    def has_ready(self, model: ModelName) -> bool:
        return model in self.dispatcher.catalog.models and self.dispatcher.questions.is_running(model)

    def has_evicted(self, model: ModelName) -> bool:
        """Did it last stop the model for its own reasons, and not because it was told to?"""
        return self._launcher.stopped.get(model) not in (None, Cause.OPERATOR)

    def waits_since(self, model: ModelName) -> Instant:
        """When the first request arrived that waits for it here; infinite: none does."""
        return min(
            (ticket.since for ticket in self.dispatcher.views.current().queue if ticket.model == model), default=inf
        )

    def chosen_by(self, model: ModelName) -> HostName | None:
        """Who has chosen this host to load it without a request."""
        claims = [held.claim for held in self.node.roster.claims if held.claim.unasked]
        return next((claim.by for claim in claims if (claim.model, claim.host) == (model, self.name)), None)

    def has_given_up(self, model: ModelName) -> bool:
        """Did three loads of it elsewhere fail, or no host have memory, while this one is drained?"""
        return model in self.node._reconciler.drain._given_up

    def knows_ready(self, model: ModelName) -> set[HostName]:
        """The other hosts on which it believes the model to be ready."""
        found = self.node.roster.hosts.residences(model)
        return {member.name for member, residence in found if residence.phase == "ready"} - {self.name}

    async def _join(self) -> None:
        try:
            await self.node.join()
        except NameTaken:  # the program ends
            self.is_alive, self.was_refused = False, True

    async def die(self) -> None:
        """As by SIGKILL: its model servers are gone too, and its lease is left behind."""
        self.is_alive = False
        await self._tasks.aclose()
        membership, node = self.node._membership, self.node
        for tasks in (membership._publishing, membership._watching, node._duties, node._tasks):
            await tasks.aclose()
        self.dispatcher._set_timer(None)
        await self.dispatcher.servers.aclose()

    async def leave(self) -> None:
        """As by SIGTERM."""
        self.is_leaving = True
        self.node.notify()
        await asyncio.sleep(1.0)  # as the program does, so that others know
        await asyncio.gather(self.dispatcher.shut_down(DRAIN_S), self._requests_end())
        await self.node.leave()
        await self.die()

    async def _requests_end(self) -> None:
        """As the relay waits for what it still has to answer, also while hosts agree."""
        for _ in range(int(DRAIN_S / LOOK_S)):
            if not self.dispatcher.tickets.in_progress():
                break
            await asyncio.sleep(LOOK_S)


class HostClient:
    """What an operator's command asks of other hosts."""

    def __init__(self, me: SimulatedHost, network: SimulatedNetwork) -> None:
        self._me, self._network = me, network

    async def path_to(self, address: Address) -> PathState:
        return PathState("" if await self._network.reach(self._me, f"http://{address.host}", DETAILS_S) else "timeout")

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any]:
        there = await self._network.reach(self._me, address, DETAILS_S)
        if there is None:
            raise HostUnresponsive(f"{host} did not answer (timeout)")
        seen = there.dispatcher.views.of(model)
        return {"phase": seen.phase.value, "why": seen.why, "last_error": seen.last_error}

    async def stop(self, host: HostName, address: str, model: ModelName) -> None:
        there = await self._network.reach(self._me, address, CALL_S)
        if there is None:
            raise HostUnresponsive(f"{address} did not answer")
        await there.dispatcher.operator.unload(model)
