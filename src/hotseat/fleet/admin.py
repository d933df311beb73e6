"""Operators' view of the fleet and their orders for its hosts. Names of hosts and models are checked here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from hotseat.errors import UnknownHost, UnknownModel, did_you_mean
from hotseat.fleet import orders
from hotseat.fleet.host_restarts import HostRestarts
from hotseat.fleet.model_outlook import outlooks
from hotseat.fleet.moves import Moves
from hotseat.fleet.name_owner import is_host_name, without_digits
from hotseat.fleet.other_hosts import OtherHosts
from hotseat.fleet.reconciler import Ourselves
from hotseat.fleet.view import Sighting, snapshot
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.model_outlook import Outlook
    from hotseat.fleet.moves import FleetClient
    from hotseat.fleet.other_hosts import HostHttp
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.store import Store
    from hotseat.fleet.view import FleetConnection, FleetView, Order
    from hotseat.identifiers import ClientId, Instant, ModelName


class Belonging(Ourselves, Protocol):
    """This host, and its connection to the fleet."""

    @property
    def connection(self) -> FleetConnection: ...

    @property
    def problem(self) -> str: ...


class FleetAdmin:
    def __init__(
        self,
        roster: Roster,
        store: Store,
        host_selector: HostSelector,
        ourselves: Belonging,
        fleet_client: FleetClient,
        http: HostHttp,
        clock: Callable[[], Instant],
    ) -> None:
        self._roster, self._store, self._host_selector, self._fleet_client = roster, store, host_selector, fleet_client
        self._ourselves, self._clock = ourselves, clock
        self._mover = Moves(roster, store, host_selector, ourselves, fleet_client, clock)
        self._restarts = HostRestarts(roster, http, lambda: ourselves.connection, clock)
        self.others = OtherHosts(roster, http)

    @property
    def name(self) -> HostName:
        return self._roster.me

    @property
    def connection(self) -> FleetConnection:
        return self._ourselves.connection

    def view(self) -> FleetView:
        self._ourselves.look_at_ourselves()
        self._host_selector.forget_absent()
        seen = snapshot(self._roster, self._host_selector.counters, self.connection, self._clock())
        return replace(seen, problem=self._ourselves.problem)

    # Orders

    async def give(self, host: str, order: Order) -> bool:
        """Is the host in the fleet now? Else it obeys when it joins."""
        name = self._known_or_new(host)
        await self._change(name, lambda given: given | {order})
        return self._roster.hosts.get(name) is not None

    async def take_back(self, host: str, order: Order) -> None:
        """Also for an absent host: its orders wait for it."""
        await self._change(self._known(host), lambda given: given - {order})

    async def _change(self, host: HostName, to: Callable[[orders.Orders], orders.Orders]) -> None:
        await orders.change(self._store, host, self._roster.orders.of(host), self.name, to)

    async def move(self, model: str, to: str) -> str:
        """Load the model there, then stop it where it was; returns what was done."""
        return await self._mover.move(self.resolve(model), self._known(to))

    async def restart(self, host: str, by: ClientId) -> str:
        """Restart another host, and wait until it is back; returns what was done."""
        return await self._restarts.restart(self._known(host), by)

    # Models on all hosts

    def resolve(self, model: str) -> ModelName:
        """The model with this name or alias anywhere in the fleet."""
        found = self._roster.names.resolve(model)
        if found is None:
            names = [name for name, _ in self._roster.names.present()]
            raise UnknownModel(f'no host of the fleet has a model named "{model}".', did_you_mean(model, names))
        return found

    def outlooks(self, model: ModelName) -> list[Outlook]:
        """What each host can do for the model."""
        self._ourselves.look_at_ourselves()
        return outlooks(self._roster, model, self._clock())

    # Models on other hosts

    def sightings(self, model: ModelName) -> list[Sighting]:
        """Other hosts that hold it, in any phase."""
        return [
            Sighting(member.name, member.residents[model].phase)
            for member in sorted(self._roster.hosts.holders(model), key=lambda member: member.name)
            if member.name != self.name
        ]

    def offering(self, model: ModelName) -> list[HostName]:
        """Other hosts that are configured for it."""
        return sorted(member.name for member, _ in self._roster.offering(model) if member.name != self.name)

    async def model_details(self, host: HostName, model: ModelName) -> dict[str, Any]:
        """That host's report. Raises HostUnresponsive with the problem."""
        to = self.others.receiver(host)
        return await self._fleet_client.model_details(host, to.url, model)

    def _known_or_new(self, host: str) -> HostName:
        """A name that nobody has may be mistyped, unless it differs from others by its number only."""
        others = (member.name for member in self._roster.hosts if without_digits(member.name) != without_digits(host))
        if is_host_name(host) and not did_you_mean(host, others):
            return HostName(host)
        return self._known(host)

    def _known(self, host: str) -> HostName:
        name, hosts = HostName(host), self._roster.hosts
        is_expected = hosts.absences.expects(name) or self._roster.orders.of(name).is_given
        if hosts.get(name) is None and not is_expected:
            names = [member.name for member in hosts]
            raise UnknownHost(f'the fleet has no host named "{host}".{did_you_mean(host, names)}')
        return name
