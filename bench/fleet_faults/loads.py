"""Judges loads: a host loads no model that it knows to be ready on another host, and one that was chosen begins."""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from bench.fleet_faults.disturbances import RECENT_S, SETTLED_S
from bench.fleet_faults.launcher import LOAD_S

from hotseat.errors import HostUnresponsive, LoadFailed
from hotseat.fleet.member import LONGEST_SHUN_S
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet_faults.disturbances import Disturbances
    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.nats import SimulatedNats
    from bench.fleet_faults.network import SimulatedNetwork
    from bench.fleet_faults.request import SimulatedRequest

    from hotseat.errors import HotseatError
    from hotseat.identifiers import HostName, Instant


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
        is_there = self._is_still_there(name, belief.model, belief.at) and self._has_reached(belief.who, name)
        return is_there and not self._is_asked_without_news(belief.who, belief.model, name)

    def _is_still_there(self, name: HostName, model: ModelName, since: Instant) -> bool:
        there = self._network.hosts.get(name)
        if there is None or not there.is_awake or there.is_leaving or not there.has_ready(model):
            return False
        if there.dispatcher.views.of(model).since > since or self._disturbances.is_stolen(name):
            return False  # it was gone in between
        return self._disturbances.last(name) < since - LONGEST_SHUN_S and not there.orders

    def _has_reached(self, host: SimulatedHost, name: HostName) -> bool:
        return not self._network.is_cut(host.name, name) and self._network.believes(host.name, name)

    # Decisions of other hosts

    def _is_asked_without_news(self, host: SimulatedHost, model: ModelName, name: HostName) -> bool:
        """Did another host decide by old records? It forwards to those it knew, and chooses by what it knows.

        What was forwarded is served where it arrives, and hosts obey the claims that they know.
        """
        waiting = [request for request in self._requests if request.is_at(host, model)]
        if waiting:
            first = min(waiting, key=lambda request: request.arrived_at)
            return first.is_believed_ready and self._disturbances.lacks_news(first.entry.name)
        chooser = self._chooser(host, model)
        return (
            chooser is not None and self._disturbances.lacks_news(chooser.name) and not self._knew(chooser, model, name)
        )

    def _chooser(self, host: SimulatedHost, model: ModelName) -> SimulatedHost | None:
        """The other host that has chosen this one to load it without a request."""
        name = host.chosen_by(model)
        return None if name in (None, host.name) else self._network.hosts.get(name)

    def _knew(self, host: SimulatedHost, model: ModelName, name: HostName) -> bool:
        """Did it believe the model to be ready there when it made a claim that has arrived now?"""
        before = self._now() - SETTLED_S
        return any(
            each.at <= before and (each.who, each.model) == (host, model) and name in each.ready_on
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
