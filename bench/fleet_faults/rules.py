"""What must hold in every simulated fleet, and the violations that were found."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from bench.fleet_faults.host import LOAD_S, names_in
from bench.fleet_faults.network import RECENT_S, SETTLED_S
from bench.fleet_faults.request import CUT, ENTRY_DIED

from hotseat.errors import HostUnresponsive, LoadFailed, NoHostAvailable, ShuttingDown, UnknownModel
from hotseat.fleet.member import LONGEST_SHUN_S
from hotseat.fleet.store import LEASE_S
from hotseat.fleet.view import Order
from hotseat.identifiers import ModelName
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.network import Disturbances, SimulatedNats, SimulatedNetwork
    from bench.fleet_faults.request import SimulatedRequest

    from hotseat.errors import HotseatError
    from hotseat.identifiers import HostName, Instant, Seconds

SETTLE_S: Seconds = LEASE_S + LOAD_S


class Agreement:
    def __init__(self, awake: Sequence[SimulatedHost], violated: Callable[[str, str], None]) -> None:
        self._awake, self._violated = awake, violated

    def check(self) -> None:
        living = {host.name for host in self._awake}
        for host in self._awake:
            known = {member.name for member in host.node.roster.hosts}
            if known != living:
                self._violated("hosts", f"{host.name} knows {sorted(known)}, alive are {sorted(living)}")
            self._check_catalog(host)
            if ordered := sorted(name for name in living if host.node.roster.orders.of(name).is_given):
                self._violated("revoked order", f"{host.name} knows an order for {ordered}, and all were revoked")
        self._check_replicas()

    def _check_catalog(self, host: SimulatedHost) -> None:
        """What no living host configures does not count."""
        specs = [spec for each in self._awake for spec in each.dispatcher.catalog.models.values()]
        kept = {spec.name: spec.replicas.least for spec in specs if spec.replicas.least}
        if (known := host.node.roster.catalog.kept) != kept:
            self._violated("dead catalog", f"{host.name} keeps {known}, configured is {kept}")
        aliases = {(alias, spec.name) for spec in specs for alias in spec.aliases}
        for alias in {alias for alias, _ in aliases}:
            found = host.node.roster.names.resolve(alias)
            if (alias, found) not in aliases:
                self._violated("dead catalog", f"{host.name} resolves {alias} as {found}")

    def _check_replicas(self) -> None:
        for name in {name for host in self._awake for name in host.dispatcher.catalog.models}:
            specs = [host.dispatcher.catalog.models.get(name) for host in self._awake]
            least = max(spec.replicas.least for spec in specs if spec)
            ready = [host.name for host in self._awake if host.has_ready(name)]
            if len(ready) > 1:
                self._violated("replicas", f"{name} is ready on {ready}, although one host is enough")
            free = [host for host in self._awake if not host.orders]
            if len(ready) < least and free:
                self._violated("replicas", f"{name} is ready nowhere, although {least} is required")


DRAIN_S: Seconds = 45.0
"""For three loads elsewhere, one after the other, and the last requests."""


class Observed(NamedTuple):
    since: Instant
    """When the drain began, or the last disturbance during it."""
    ready: frozenset[ModelName]


class Drains:
    def __init__(self, violated: Callable[[str, str], None]) -> None:
        self._violated = violated
        self._drained: dict[HostName, Observed] = {}

    def observe(self, hosts: Iterable[SimulatedHost], now: Instant, *, is_calm: bool) -> None:
        """Called every second."""
        awake = list(hosts)
        before, self._drained = self._drained, {}
        for host in awake:
            if Order.DRAIN in host.orders:
                ready = frozenset(model for model in host.dispatcher.catalog.models if host.has_ready(model))
                seen = before.get(host.name, Observed(now, ready))
                self._drained[host.name] = Observed(seen.since if is_calm else now, ready)
                if is_calm:
                    self._check_end(host, now - seen.since, ready)
                    self._check_stopped(host, seen.ready - ready, awake)

    def _check_end(self, host: SimulatedHost, lasts_s: Seconds, ready: frozenset[ModelName]) -> None:
        if ready and lasts_s > DRAIN_S:
            self._violated("endless drain", f"{host.name} is drained for {lasts_s:.0f} s and has {sorted(ready)}")

    def _check_stopped(self, host: SimulatedHost, stopped: Iterable[ModelName], awake: list[SimulatedHost]) -> None:
        for model in sorted(model for model in stopped if not host.has_given_up(model)):
            is_served = any(each.has_ready(model) and Order.DRAIN not in each.orders for each in awake)
            if not is_served and any(_able(model, host, awake)):
                self._violated("hasty drain", f"{host.name} has stopped {model}, which is ready nowhere else")


def _able(model: ModelName, drained: SimulatedHost, awake: list[SimulatedHost]) -> Iterator[SimulatedHost]:
    """Hosts that could have loaded it."""
    return (
        host for host in awake if host is not drained and not host.orders and model in host.dispatcher.catalog.models
    )


class Belief(NamedTuple):
    at: Instant
    who: SimulatedHost
    model: ModelName
    ready_on: frozenset[HostName]


class Loads:
    def __init__(
        self,
        nats: SimulatedNats,
        network: SimulatedNetwork,
        disturbances: Disturbances,
        requests: Sequence[SimulatedRequest],
        violated: Callable[[str, str], None],
    ) -> None:
        self._nats, self._network, self._disturbances = nats, network, disturbances
        self._requests, self._violated = requests, violated
        self._now = asyncio.get_running_loop().time
        self._beliefs: deque[Belief] = deque()
        """Recent ones, the oldest first."""
        self._begun: dict[tuple[HostName, ModelName], Instant] = {}
        """When each load last began."""
        self._last_ready: dict[tuple[HostName, ModelName], Instant] = {}
        """When a host last had a model: one that stops a surplus replica may get a request that is on its way."""
        self.moved: dict[ModelName, Instant] = {}
        """When a model was last being moved: a request on its way to the previous host loads it there once more."""

    def observe(self, host: SimulatedHost) -> None:
        now = self._now()
        for model in host.dispatcher.catalog.models:
            if host.has_ready(model):
                self._last_ready[host.name, model] = now
            if where := host.knows_ready(model):
                self._beliefs.append(Belief(now, host, model, frozenset(where)))
        while self._beliefs and now - self._beliefs[0].at > RECENT_S:
            self._beliefs.popleft()

    def begins(self, host: SimulatedHost, model: ModelName) -> None:
        self._begun[host.name, model] = self._now()
        since = max(self.moved.get(model, -inf), self._last_ready.get((host.name, model), -inf))
        if self._now() - since >= SETTLED_S and (name := self._known_elsewhere(host, model)):
            self._violated("needless load", f"{host.name} loads {model}, which is ready on {name}")

    def _known_elsewhere(self, host: SimulatedHost, model: ModelName) -> HostName | None:
        """Another host where it knew the model to be ready, and where nothing has happened since."""
        asked_at = host.waits_since(model)  # a request that waits here is not sent on
        known = (each for each in self._beliefs if (each.who, each.model) == (host, model) and each.at <= asked_at)
        return next((name for each in known for name in sorted(each.ready_on) if self._is_usable(name, each)), None)

    def _is_usable(self, name: HostName, belief: Belief) -> bool:
        is_there = self._is_still_there(name, belief.model, belief.at) and self._network.is_open(belief.who.name, name)
        return is_there and not self._is_asked_without_news(belief.who, belief.model, name)

    def _is_still_there(self, name: HostName, model: ModelName, since: Instant) -> bool:
        there = self._network.hosts.get(name)
        if there is None or not there.is_awake or there.is_leaving or not there.has_ready(model):
            return False
        if there.dispatcher.views.of(model).since > since or self._disturbances.is_stolen(name):
            return False  # it was gone in between
        return self._disturbances.last(name) < since - LONGEST_SHUN_S and not there.orders

    # Decisions of other hosts

    def _is_asked_without_news(self, host: SimulatedHost, model: ModelName, name: HostName) -> bool:
        """Did another host decide by old records? It forwards to those it knew, and chooses by what it knows.

        What was forwarded is served where it arrives, and hosts obey the claims that they know.
        """
        waiting = [request for request in self._requests if request.is_at(host, model)]
        if waiting:
            first = min(waiting, key=lambda request: request.arrived_at)
            if first.entry is host or not self._disturbances.lacks_news(first.entry.name):
                return False
            return first.is_believed_ready or not self._knew(first.entry, model, name, by=first.began_at)
        chooser = self._chooser(host, model)
        if chooser is None or not self._disturbances.lacks_news(chooser.name):
            return False
        return not self._knew(chooser, model, name, by=self._now() - SETTLED_S)  # its claim has arrived only now

    def _chooser(self, host: SimulatedHost, model: ModelName) -> SimulatedHost | None:
        """The other host that has chosen this one to load it without a request."""
        name = host.chosen_by(model)
        return None if name in (None, host.name) else self._network.hosts.get(name)

    def _knew(self, host: SimulatedHost, model: ModelName, name: HostName, by: Instant) -> bool:
        """Did it believe the model to be ready there when it decided?"""
        return any(
            each.at <= by and (each.who, each.model) == (host, model) and name in each.ready_on
            for each in self._beliefs
        )

    # Moves

    def check_failed_move(self, model: str, to: HostName, began_at: Instant, error: HotseatError) -> None:
        """A move may be refused, but a host that was chosen and is well must begin the load."""
        host, name = self._network.hosts[to], ModelName(model)
        is_well = host.is_awake and self._disturbances.is_calm(to) and self._nats.is_calm(RECENT_S)
        has_begun = self._begun.get((to, name), -inf) >= began_at - LOAD_S or host.has_ready(name)
        if is_well and not has_begun and isinstance(error, LoadFailed | HostUnresponsive):
            self._violated("moves", f"{model} was not moved to {to}: {error.message}")


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
        if isinstance(error, NoHostAvailable | ShuttingDown):
            for host in self._able(request):
                self.violated("refusal", f"{request.entry.name}: {error.message}, although {host.name} could load it")

    def _able(self, request: SimulatedRequest) -> Iterator[SimulatedHost]:
        """Hosts that could serve it, as its entry knows: nothing happened to them recently."""
        entry, roster = request.entry, request.entry.node.roster
        for host in self.awake():
            is_free = not (host.orders or roster.orders.of(host.name).is_given)
            is_itself = not self._disturbances.were_stolen(entry.name, host.name)
            is_open = self._disturbances.is_calm(host.name) and self._network.is_open(entry.name, host.name)
            is_known = roster.hosts.get(host.name) is not None
            if request.can_be_served_by(host) and is_free and (host is entry or (is_itself and is_open and is_known)):
                yield host

    def check_bounds(self) -> None:
        for request in self.requests:
            if request.outcome or not request.entry.is_awake:
                continue
            request.waited_s += 1.0  # they are observed every second
            if request.waited_s > BOUND_S:
                at = request.at.name if request.at else "no host"
                self.violated("no answer", f"request {request.number} for {request.name} has waited too long at {at}")
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
