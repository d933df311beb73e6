"""The simulated network between hosts: connections that are slow, refused, or accepted by a host that is stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.catalog.spec import HOST_TIMEOUTS

if TYPE_CHECKING:
    from random import Random

    from bench.fleet_faults.host import SimulatedHost

    from hotseat.identifiers import HostName, Seconds

WAY_S: Seconds = 0.05
CLOCKS_S: Seconds = 60.0
"""Hosts whose clocks differ by more do not believe each other."""


class SimulatedNetwork:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.hosts: dict[HostName, SimulatedHost] = {}
        """Whoever listens at the address of this name."""
        self.cut: set[frozenset[HostName]] = set()
        """Pairs that cannot reach each other."""
        self.skew_s: dict[HostName, Seconds] = {}
        """How far a host's clock is from the others'."""

    async def travel(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, WAY_S))

    def at(self, address: str) -> SimulatedHost | None:
        name = address.removeprefix("http://").partition(":")[0]
        host = self.hosts.get(name)  # type: ignore[call-overload]  # a name from an address
        return host if host is not None and host.is_alive else None

    def is_cut(self, one: HostName, other: HostName) -> bool:
        return frozenset((one, other)) in self.cut

    def believes(self, one: HostName, other: HostName) -> bool:
        return abs(self.skew_s.get(one, 0.0) - self.skew_s.get(other, 0.0)) <= CLOCKS_S

    async def connect(self, origin: SimulatedHost, address: str) -> SimulatedHost | None:
        """Who accepts the connection, as the kernel of a stopped host does too; None: nobody."""
        await self.travel()
        there = self.at(address)
        if there is not None and self.is_cut(origin.name, there.name):
            await asyncio.sleep(HOST_TIMEOUTS.connect_s or 0.0)
            return None
        return there

    async def reach(self, origin: SimulatedHost, address: str, within: Seconds) -> SimulatedHost | None:
        """Who answers in time; None: nobody."""
        there = await self.connect(origin, address)
        if there is None or not self.believes(origin.name, there.name):
            return None
        try:
            async with asyncio.timeout(within):
                await there.awake.wait()
        except TimeoutError:
            return None
        return there if there.is_alive else None
