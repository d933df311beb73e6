"""What must hold in every simulated fleet, and the violations that were found."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from bench.fleet_faults.configurations import names_in
from bench.fleet_faults.drains import Drains
from bench.fleet_faults.launcher import LOAD_S
from bench.fleet_faults.request import CUT, ENTRY_DIED

from hotseat.errors import HostUnresponsive, LoadFailed, UnknownModel
from hotseat.fleet.member import LONGEST_SHUN_S
from hotseat.fleet.store import LEASE_S
from hotseat.identifiers import ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.nats import SimulatedNats
    from bench.fleet_faults.network import SimulatedNetwork
    from bench.fleet_faults.request import SimulatedRequest

    from hotseat.errors import HotseatError
    from hotseat.fleet.view import Order
    from hotseat.identifiers import HostName, Instant, Seconds

BOUND_S: Seconds = 90.0
"""For one request: some loads, some hosts that do not answer, and never more than that."""
RECENT_S: Seconds = 30.0
"""A host that was there so recently is restarting, not gone."""
SETTLED_S: Seconds = 5.0
"""After a move, or the stop of a surplus replica, all requests are on their way to the right host."""


class Violation(NamedTuple):
    at: Instant
    rule: str
    what: str

    def __str__(self) -> str:
        return f"at {self.at:.1f} s: {self.rule}: {self.what}"


class Rules:
    def __init__(self, nats: SimulatedNats, network: SimulatedNetwork) -> None:
        self._nats, self._network = nats, network
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
        self.disturbed: dict[HostName, Instant] = {}
        """When something last happened to a host by which others may consider it absent."""
        self.seconds: list[SimulatedHost] = []
        """Machines that try to take the name of a host."""
        self._stolen: dict[HostName, Instant] = {}
        """When one last held it, as is possible while NATS or the first machine is away: it replaces the record."""
        self._known: deque[tuple[Instant, SimulatedHost, ModelName, frozenset[HostName]]] = deque()
        """Who has believed a model to be ready where."""
        self._last_alive: dict[str, Instant] = {}
        """When a living host last configured a name."""
        self._loads: dict[tuple[HostName, ModelName], Instant] = {}
        """When each last began."""
        self._last_ready: dict[tuple[HostName, ModelName], Instant] = {}
        """When a host last had a model: one that stops a surplus replica may get a request that is on its way."""
        self._drains = Drains(self.violated)
        self.moved: dict[ModelName, Instant] = {}
        """When a model was last being moved: a request on its way to the previous host loads it there once more."""

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
            if request.outcome or not request.entry.is_awake or not self.is_calm(request.entry.name):
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

    # Disturbances

    def note_disturbance(self, host: HostName) -> None:
        self.disturbed[host] = self._now()

    def is_calm(self, *hosts: HostName) -> bool:
        """Has nothing happened to them recently?"""
        return all(self._now() - self.disturbed.get(host, -inf) > RECENT_S for host in hosts)

    # Loads

    def load_begins(self, host: SimulatedHost, model: ModelName) -> None:
        self._loads[host.name, model] = self._now()
        self._check_orders(host, model)
        self._check_reason(host, model)

    def _check_orders(self, host: SimulatedHost, model: ModelName) -> None:
        orders = self.ordered.get(host.name)
        if orders and host.waits_since(model) > self._ordered_at[host.name]:  # else the request was placed before
            words = " and ".join(sorted(order.value for order in orders))
            self.violated("order ignored", f"{host.name} loads {model} in spite of: {words}")

    def _check_reason(self, host: SimulatedHost, model: ModelName) -> None:
        """It knew another host where the model was ready, and where nothing has happened since."""
        if self._now() - max(self.moved.get(model, -inf), self._last_ready.get((host.name, model), -inf)) < SETTLED_S:
            return None
        asked_at = host.waits_since(model)
        for at, who, what, where in self._known:
            if who is not host or what != model or at > asked_at:  # a request that waits here is not sent on
                continue
            for name in where:
                is_needless = self._is_still_there(name, model, at) and self._has_reached(host, name)
                if is_needless and not self._is_asked_without_news(host, model, name):
                    return self.violated("needless load", f"{host.name} loads {model}, which is ready on {name}")
        return None

    def _is_asked_without_news(self, host: SimulatedHost, model: ModelName, name: HostName) -> bool:
        """Did another host decide by old records? It forwards to those it knew, and chooses by what it knows.

        What was forwarded is served where it arrives, and hosts obey the claims that they know.
        """
        waiting = [request for request in self.requests if request.is_at(host, model)]
        if waiting:
            first = min(waiting, key=lambda request: request.arrived_at)
            return first.is_believed_ready and self._lacks_news(first.entry)
        chooser = self._chooser(host, model)
        return chooser is not None and self._lacks_news(chooser) and not self._knew(chooser, model, name)

    def _chooser(self, host: SimulatedHost, model: ModelName) -> SimulatedHost | None:
        """The other host that has chosen this one to load it without a request."""
        name = host.chosen_by(model)
        return None if name in (None, host.name) else self._network.hosts.get(name)

    def _knew(self, host: SimulatedHost, model: ModelName, name: HostName) -> bool:
        """Did it believe the model to be ready there when it made a claim that has arrived now?"""
        before = self._now() - SETTLED_S
        return any(
            at <= before and who is host and what == model and name in where for at, who, what, where in self._known
        )

    def _lacks_news(self, host: SimulatedHost) -> bool:
        """NATS is slow or was away, or the host itself was stopped: it has not received all records since."""
        since = self.disturbed.get(host.name, -inf)
        return not self._nats.is_calm(SETTLED_S) or self._now() - since < SETTLED_S

    def _is_still_there(self, name: HostName, model: ModelName, since: Instant) -> bool:
        there = self._network.hosts.get(name)
        if there is None or not there.is_awake or there.is_leaving or not there.has_ready(model):
            return False
        if there.dispatcher.view_of(model).since > since or self._is_stolen(name):
            return False  # it was gone in between
        disturbed = max(self.disturbed.get(name, -inf), self._stolen.get(name, -inf))
        return disturbed < since - LONGEST_SHUN_S and not there.orders

    def _is_stolen(self, name: HostName) -> bool:
        return any(second.name == name and second.holds_name for second in self.seconds)

    def _has_reached(self, host: SimulatedHost, name: HostName) -> bool:
        return not self._network.is_cut(host.name, name) and self._network.believes(host.name, name)

    def check_failed_move(self, model: str, to: HostName, began_at: Instant, error: HotseatError) -> None:
        """A move may be refused, but a host that was chosen and is well must begin the load."""
        is_well = self._network.hosts[to].is_awake and self.is_calm(to) and self._nats.is_calm(RECENT_S)
        has_begun = self._loads.get((to, ModelName(model)), -inf) >= began_at - LOAD_S
        has_begun = has_begun or self._network.hosts[to].has_ready(ModelName(model))
        if is_well and not has_begun and isinstance(error, LoadFailed | HostUnresponsive):
            self.violated("moves", f"{model} was not moved to {to}: {error.message}")

    # What is observed every second

    def observe(self) -> None:
        now = self._now()
        self._note_disturbances()
        for host in self.awake():
            for name in names_in(host.dispatcher.catalog):
                self._last_alive[name] = now
            self._observe_orders(host)
            host.names_known.update(host.dispatcher.catalog.fleet_models)
            for model in host.dispatcher.catalog.models:
                if host.has_ready(model):
                    self._last_ready[host.name, model] = now
                if where := host.knows_ready(model):
                    self._known.append((now, host, model, frozenset(where)))
        while self._known and now - self._known[0][0] > RECENT_S:
            self._known.popleft()
        self._drains.observe(self.awake(), now, is_calm=self._is_all_calm())
        self.check_bounds()

    def _is_all_calm(self) -> bool:
        return self.is_calm(*self._network.hosts) and self._nats.is_calm(RECENT_S)

    def _note_disturbances(self) -> None:
        """While some hosts cannot reach others or NATS, or leases may end, those decide alone, and about all hosts."""
        if self._nats.loses or self._nats.cut_off or self._network.cut or self._network.skew_s:
            for name in self._network.hosts:
                self.note_disturbance(name)
        for name in filter(self._is_stolen, self._network.hosts):
            self._stolen[name] = self._now()

    def _observe_orders(self, host: SimulatedHost) -> None:
        """An order counts from when its host obeys it."""
        if host.orders and host.name in self.given:
            if host.name not in self.ordered:
                self._ordered_at[host.name] = self._now()
            self.ordered[host.name] = host.orders & self.given[host.name]

    # At the end

    def check_agreement(self) -> None:
        """After the last fault, a lease and a load, all hosts must know the same, and it must be true."""
        living = {host.name for host in self.awake()}
        for host in self.awake():
            known = {member.name for member in host.node.roster.hosts()}
            if known != living:
                self.violated("hosts", f"{host.name} knows {sorted(known)}, alive are {sorted(living)}")
            self._check_catalog(host)
        self._check_replicas()

    def _check_catalog(self, host: SimulatedHost) -> None:
        """What no living host configures does not count."""
        specs = [spec for each in self.awake() for spec in each.dispatcher.catalog.models.values()]
        kept = {spec.name: spec.replicas.least for spec in specs if spec.replicas.least}
        if dict(host.node.roster.kept) != kept:
            self.violated("dead catalog", f"{host.name} keeps {dict(host.node.roster.kept)}, configured is {kept}")
        aliases = {(alias, spec.name) for spec in specs for alias in spec.aliases}
        for alias in {alias for alias, _ in aliases}:
            found = host.node.roster.names.resolve(alias)
            if (alias, found) not in aliases:
                self.violated("dead catalog", f"{host.name} resolves {alias} as {found}")

    def _check_replicas(self) -> None:
        for name in {name for host in self.awake() for name in host.dispatcher.catalog.models}:
            specs = [host.dispatcher.catalog.models.get(name) for host in self.awake()]
            least = max(spec.replicas.least for spec in specs if spec)
            ready = [host.name for host in self.awake() if host.has_ready(name)]
            if len(ready) > 1:
                self.violated("replicas", f"{name} is ready on {ready}, although one host is enough")
            free = [host for host in self.awake() if not host.orders]
            if len(ready) < least and free:
                self.violated("replicas", f"{name} is ready nowhere, although {least} is required")

    def awake(self) -> Iterator[SimulatedHost]:
        return (host for host in list(self._network.hosts.values()) if host.is_awake and not host.is_leaving)


SETTLE_S: Seconds = LEASE_S + LOAD_S
