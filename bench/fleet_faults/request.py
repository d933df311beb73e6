"""One request of a client: through the production routing of its entry host, to a simulated model server."""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from hotseat.catalog.spec import HOST_TIMEOUTS
from hotseat.errors import HotseatError, LoadFailed, NotServed, ShuttingDown
from hotseat.fleet.route import OtherHost
from hotseat.identifiers import ClientId, ModelName
from hotseat.relay.access.host_requests import UNDONE
from hotseat.relay.exchange.fleet_hop import FleetHop

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.network import SimulatedNetwork
    from bench.fleet_faults.rules import Rules

    from hotseat.fleet.route import Route
    from hotseat.identifiers import Instant, Seconds, TicketId, Upstream

OK, CUT, ENTRY_DIED = "200", "cut", "the client's host died"


class SimulatedRequest:
    def __init__(
        self, number: int, name: str, entry: SimulatedHost, network: SimulatedNetwork, rules: Rules, takes_s: Seconds
    ) -> None:
        self.number, self.name, self.entry, self.takes_s = number, name, entry, takes_s
        self._network, self._rules, self.tasks = network, rules, rules.tasks
        self.began_at: Instant = asyncio.get_running_loop().time()
        self.outcome = ""
        """Empty while it is in progress."""
        self.at: SimulatedHost | None = None
        """Who has received it."""
        self.was_sent = False
        self.waited_s: Seconds = 0.0
        """While its entry was not stopped: a stopped host can answer nobody."""
        self.arrived_at: Instant = inf
        """At the host that has received it."""
        self.is_believed_ready = False
        """Did its entry believe the model to be ready at the other host that it sent it to?"""
        self._turn: Turn | None = None
        self._hop: FleetHop | None = None
        self._model: ModelName

    def is_at(self, host: SimulatedHost, model: ModelName) -> bool:
        """Does it wait for the model there, or use it?"""
        return not self.outcome and self.at is host and self._model == model

    def can_be_served_by(self, host: SimulatedHost) -> bool:
        return self._model in host.dispatcher.catalog.models

    def begin(self) -> None:
        self._rules.begins(self)
        self.run(self._route)

    def run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except HotseatError as error:
            self.end(f"{error.status} {error.code}", error)

    def _route(self) -> None:
        self._model = ModelName(self.entry.dispatcher.catalog.follow(self.name).name)
        client = ClientId(f"client {self.number % 5}")
        selector, dispatcher = self.entry.node.host_selector, self.entry.dispatcher
        self._hop = FleetHop(selector, dispatcher, self, self._model, client, self._send_to)
        self._hop.find()

    def last_received(self) -> None:
        """A response arrives whole."""

    # Called by the dispatcher of its entry host while another host has it

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        raise AssertionError("the scheduler does not know of it")

    def confirmed(self) -> None:
        raise AssertionError("no operator")

    def refused(self, error: HotseatError) -> None:
        self.end(f"{error.status} {error.code}", error)

    def cut(self, error: HotseatError) -> None:
        self.end(CUT, error)

    # Its way

    def _send_to(self, where: Route) -> None:
        self.is_believed_ready = isinstance(where, OtherHost) and where.host in self.entry.knows_ready(self._model)
        if isinstance(where, OtherHost):
            self.tasks.start(self._forward(where), "request")
        else:
            self._arrive(self.entry)

    async def _forward(self, where: OtherHost) -> None:
        assert self._hop is not None
        there = await self._network.connect(self.entry, f"http://{where.address.host}")
        if there is None:
            return self.run(self._hop.turned_away)
        self.at, self.was_sent = there, True
        await self._network.until_passed_on(self.entry.name, there.name)
        await there.awake.wait()
        if not there.is_alive:
            return None
        if not self._network.believes(self.entry.name, there.name):
            return self._turned_away("the clocks differ")
        if there.is_leaving or self._model not in there.dispatcher.catalog.models:
            return self._turned_away()
        try:
            there.node.host_selector.check_taken(self._model)
        except NotServed:
            return self._turned_away()
        return self._arrive(there)

    def _turned_away(self, unproven: str = "") -> None:
        if not self.outcome:
            assert self._hop is not None
            self.at, self.was_sent = None, False
            self.run(partial(self._hop.turned_away, unproven))

    def _arrive(self, there: SimulatedHost) -> None:
        self.at, self.arrived_at = there, asyncio.get_running_loop().time()
        turn = self._turn = Turn(self, there, self._rules)
        turn.ticket = there.dispatcher.ask(self._model, ClientId(f"client {self.number % 5}"), turn)
        if self.outcome:  # given up while this host was stopped: it finds the connection closed
            self.tasks.start(turn.abandon(), "request")

    # The response

    async def answer(self, there: SimulatedHost, outcome: str, error: HotseatError | None = None) -> None:
        """What a host answers travels back to the entry."""
        await self._network.travel()
        await self._network.until_passed_on(self.entry.name, there.name)
        if self._network.is_cut(self.entry.name, there.name):
            await asyncio.sleep(HOST_TIMEOUTS.lost_s or 0.0)
            outcome, error = CUT, None
        await self.entry.awake.wait()
        if there is not self.entry and isinstance(error, UNDONE):
            return self._turned_away()
        if isinstance(error, ShuttingDown | LoadFailed) and self._hop is not None and not self.outcome:
            self.at = None
            if there is self.entry:
                return self._hop.refused_here(error)
            assert isinstance(error, LoadFailed)
            self.was_sent = False
            return self.run(partial(self._hop.not_loaded, error))
        return self.end(outcome, error)

    def end(self, outcome: str, error: HotseatError | None = None) -> None:
        if self.outcome:
            return
        self.outcome = outcome
        if self._hop is not None and self.entry.is_alive:
            self._hop.come_back()
        self._rules.ended(self, error)
        if self._turn is not None:
            self.tasks.start(self._turn.abandon(), "request")


class Turn:
    """The request at the host that serves it: a waiter of its dispatcher."""

    def __init__(self, request: SimulatedRequest, host: SimulatedHost, rules: Rules) -> None:
        self._request, self._host, self._rules, self.tasks = request, host, rules, rules.tasks
        self.ticket: TicketId

    def granted(self, upstream: Upstream, reason: str = "") -> None:
        self._rules.executed(self._request, self._host)
        self.tasks.start(self._serve(), "request")

    def confirmed(self) -> None:
        raise AssertionError("no operator")

    def refused(self, error: HotseatError) -> None:
        self.tasks.start(self._request.answer(self._host, f"{error.status} {error.code}", error), "request")

    def cut(self, error: HotseatError) -> None:
        asyncio.get_running_loop().call_soon(lambda: self._host.dispatcher.leave(self.ticket))
        self.tasks.start(self._request.answer(self._host, CUT), "request")

    async def abandon(self) -> None:
        """The connection is closed, which a stopped host notices when it continues: what waits leaves the queue."""
        await self._host.awake.wait()
        if self._host.is_alive:
            self._host.dispatcher.leave(self.ticket)

    async def _serve(self) -> None:
        await asyncio.sleep(self._request.takes_s)
        await self._host.awake.wait()
        if self._host.is_alive:
            self._host.dispatcher.leave(self.ticket, is_answered=True)
            await self._request.answer(self._host, OK)
