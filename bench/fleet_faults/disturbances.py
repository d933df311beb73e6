"""What has happened to simulated hosts recently: others may consider them absent, and they may lack news."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.nats import SimulatedNats
    from bench.fleet_faults.network import SimulatedNetwork

    from hotseat.identifiers import HostName, Instant, Seconds

RECENT_S: Seconds = 30.0
"""A host that was there so recently is restarting, not gone."""
SETTLED_S: Seconds = 5.0
"""After a move, or the stop of a surplus replica, all requests are on their way to the right host."""


class Disturbances:
    def __init__(self, nats: SimulatedNats, network: SimulatedNetwork) -> None:
        self._nats, self._network = nats, network
        self._now = asyncio.get_running_loop().time
        self._disturbed: dict[HostName, Instant] = {}
        """When something last happened to a host by which others may consider it absent."""
        self.seconds: list[SimulatedHost] = []
        """Machines that try to take the name of a host."""
        self._stolen: dict[HostName, Instant] = {}
        """When one last held it, as is possible while NATS or the first machine is away: it replaces the record."""

    def note(self, host: HostName) -> None:
        self._disturbed[host] = self._now()

    def observe(self) -> None:
        """While some hosts cannot reach others or NATS, or leases may end, those decide alone, and about all hosts."""
        if self._nats.loses or self._nats.cut_off or self._network.cut or self._network.skew_s:
            for name in self._network.hosts:
                self.note(name)
        for name in filter(self.is_stolen, self._network.hosts):
            self._stolen[name] = self._now()

    def is_calm(self, *hosts: HostName) -> bool:
        """Has nothing happened to them recently?"""
        return all(self._now() - self._disturbed.get(host, -inf) > RECENT_S for host in hosts)

    def is_all_calm(self) -> bool:
        return self.is_calm(*self._network.hosts) and self._nats.is_calm(RECENT_S)

    def last(self, host: HostName) -> Instant:
        return max(self._disturbed.get(host, -inf), self._stolen.get(host, -inf))

    def is_stolen(self, name: HostName) -> bool:
        return any(second.name == name and second.holds_name for second in self.seconds)

    def lacks_news(self, host: HostName) -> bool:
        """NATS is slow or was away, or the host itself was stopped: it has not received all records since."""
        since = self._disturbed.get(host, -inf)
        return not self._nats.is_calm(SETTLED_S) or self._now() - since < SETTLED_S
