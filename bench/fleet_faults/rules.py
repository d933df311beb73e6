"""What must hold in every simulated fleet, and the violations that were found."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from bench.fleet_faults.agreement import Agreement
from bench.fleet_faults.configurations import names_in
from bench.fleet_faults.disturbances import RECENT_S
from bench.fleet_faults.drains import Drains
from bench.fleet_faults.loads import Loads
from bench.fleet_faults.request import CUT, ENTRY_DIED

from hotseat.errors import UnknownModel
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.fleet_faults.disturbances import Disturbances
    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.nats import SimulatedNats
    from bench.fleet_faults.network import SimulatedNetwork
    from bench.fleet_faults.request import SimulatedRequest

    from hotseat.errors import HotseatError
    from hotseat.fleet.view import Order
    from hotseat.identifiers import HostName, Instant, ModelName, Seconds

BOUND_S: Seconds = 90.0
"""For one request: some loads, some hosts that do not answer, and never more than that."""


class Violation(NamedTuple):
    at: Instant
    rule: str
    what: str

    def __str__(self) -> str:
        return f"at {self.at:.1f} s: {self.rule}: {self.what}"


class Rules:
    def __init__(self, nats: SimulatedNats, network: SimulatedNetwork, disturbances: Disturbances) -> None:
        self._network, self._disturbances = network, disturbances
        self._now = asyncio.get_running_loop().time
        self.tasks = Tasks()
        """Of requests."""
        self.violations: list[Violation] = []
        self.requests: list[SimulatedRequest] = []
        self._executed: Counter[int] = Counter()
        self.given: dict[HostName, frozenset[Order]] = {}
        """Operators' orders."""
        self.ordered: dict[HostName, frozenset[Order]] = {}
        """Those that the host has obeyed: it must do so until they are taken back."""
        self._ordered_at: dict[HostName, Instant] = {}
        self._last_alive: dict[str, Instant] = {}
        """When a living host last configured a name."""
        self._drains = Drains(self.violated)
        self.loads = Loads(nats, network, disturbances, self.requests, self.violated)

    def violated(self, rule: str, what: str) -> None:
        self.violations.append(Violation(self._now(), rule, what))

    # Requests

    def begins(self, request: SimulatedRequest) -> None:
        self.requests.append(request)

    def executed(self, request: SimulatedRequest, host: SimulatedHost) -> None:
        self._executed[request.number] += 1
        if self._executed[request.number] > 1:
            self.violated(
                "executed twice", f"request {request.number} for {request.name}, the second time on {host.name}"
            )

    def ended(self, request: SimulatedRequest, error: HotseatError | None) -> None:
        was_alive = self._now() - self._last_alive.get(request.name, -RECENT_S) < RECENT_S
        if isinstance(error, UnknownModel) and was_alive and request.name in request.entry.names_known:
            self.violated("unknown model", f"{request.entry.name} answers 404 for {request.name}, whose host restarts")

    def check_bounds(self) -> None:
        for request in self.requests:
            waits_s = self._now() - request.began_at
            if request.outcome or not request.entry.is_awake or not self._disturbances.is_calm(request.entry.name):
                continue  # while its own host was stopped, nobody could answer
            if waits_s > BOUND_S:
                at = request.at.name if request.at else "no host"
                self.violated(
                    "no answer", f"request {request.number} for {request.name} has waited {waits_s:.0f} s at {at}"
                )
                request.end("given up")

    def host_died(self, host: SimulatedHost) -> None:
        for request in self.requests:
            if not request.outcome and request.entry is host:
                request.end(ENTRY_DIED)
            elif not request.outcome and request.at is host:
                request.end(CUT)

    def load_begins(self, host: SimulatedHost, model: ModelName) -> None:
        self._check_orders(host, model)
        self.loads.begins(host, model)

    def _check_orders(self, host: SimulatedHost, model: ModelName) -> None:
        orders = self.ordered.get(host.name)
        if orders and host.waits_since(model) > self._ordered_at[host.name]:  # else the request was placed before
            words = " and ".join(sorted(order.value for order in orders))
            self.violated("order ignored", f"{host.name} loads {model} in spite of: {words}")

    # What is observed every second

    def observe(self) -> None:
        now = self._now()
        self._disturbances.observe()
        for host in self.awake():
            for name in names_in(host.dispatcher.catalog):
                self._last_alive[name] = now
            self._observe_orders(host)
            host.names_known.update(host.dispatcher.catalog.fleet_models)
            self.loads.observe(host)
        self._drains.observe(self.awake(), now, is_calm=self._disturbances.is_all_calm())
        self.check_bounds()

    def _observe_orders(self, host: SimulatedHost) -> None:
        """An order counts from when its host obeys it."""
        if host.orders and host.name in self.given:
            if host.name not in self.ordered:
                self._ordered_at[host.name] = self._now()
            self.ordered[host.name] = host.orders & self.given[host.name]

    def check_agreement(self) -> None:
        Agreement(list(self.awake()), self.violated).check()

    def awake(self) -> Iterator[SimulatedHost]:
        return (host for host in list(self._network.hosts.values()) if host.is_awake and not host.is_leaving)
