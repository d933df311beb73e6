"""Judges drains: each one ends, and a model in use stops only after another host has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.fleet.view import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bench.fleet_faults.host import SimulatedHost

    from hotseat.identifiers import HostName, Instant, ModelName, Seconds

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
