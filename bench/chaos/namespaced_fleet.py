"""A fleet whose machines have network namespaces of their own, and the faults that only a network can have."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from bench.chaos.fleet import SERVERS, Fleet, host_names
from bench.chaos.fleet_faults import FleetInjector, a_while
from bench.chaos.hotseat_process import send_signal, until
from bench.chaos.injecting import CLIENTLESS, POWERLESS
from bench.chaos.namespaces import DROP, REFUSE, SHAPES, SOMETIMES, Network
from tests.support.nats import nats_servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.support.nats import NatsServer


class NamespacedFleet(Fleet):
    def __init__(self, folder: Path, count: int, nats: list[NatsServer], network: Network) -> None:
        super().__init__(folder, count, nats, network.machines)
        self.network = network
        for rig in self.rigs:
            self._join(rig, f"{rig.name}:{rig.port}", [f"{server.name}:{server.port}" for server in nats])


@asynccontextmanager
async def namespaced_fleet(count: int, folder: Path) -> AsyncIterator[NamespacedFleet]:
    """So many hosts, not started yet."""
    network = Network([*host_names(count), *(f"nats{n}" for n in range(SERVERS))], folder)
    network.create()
    async with nats_servers(folder / "nats", SERVERS, advertise=False, machines=network.machines) as servers:
        fleet = NamespacedFleet(folder, count, servers, network)
        try:
            yield fleet
        finally:
            fleet.end()


class NamespacedInjector(FleetInjector):
    _fleet: NamespacedFleet
    _lost: Counter[str]

    def _links(self) -> dict[str, Callable[[], Awaitable[str | None]]]:
        self._lost = Counter()
        return {
            **{name: partial(self._part, name) for name in SHAPES},
            POWERLESS: self._lose_power,
            "power failure of NATS' leader": self._lose_leader,
            "half of the hosts restart": self._restart_half,
        }

    @property
    def notes(self) -> list[str]:
        lost = ", ".join(f"{name}: {count}" for name, count in sorted(self._lost.items()))
        return [*super().notes, f"packets that were dropped or refused: {lost}"]

    async def _part(self, name: str) -> str | None:
        network = self._fleet.network
        hosts = [rig.name for rig in self._rng.sample(self._fleet.rigs, len(self._fleet.rigs))]
        leader = (await asyncio.to_thread(self._fleet.leader)).name
        nats = sorted((server.name for server in self._fleet.nats), key=lambda server: server != leader)
        verdict = SOMETIMES if name == "packets are lost" else self._rng.choice([DROP, REFUSE])
        await asyncio.to_thread(network.lose, SHAPES[name](hosts, nats), verdict)
        await a_while(self._rng)
        self._lost[name] += await asyncio.to_thread(network.mend)
        return hosts[0] if name == CLIENTLESS else None

    async def _lose_power(self) -> str:
        """Nobody is told by a FIN or RST, not even later: what the dead kernel knew is gone."""
        rig, network = self.hosts.any_host(), self._fleet.network
        await asyncio.to_thread(network.cut, rig.name)
        await rig.end(signal.SIGKILL)
        for pid in rig.processes():
            send_signal(pid, signal.SIGKILL)
        await until(lambda: not rig.processes())
        await asyncio.to_thread(network.remove, rig.name)
        await a_while(self._rng)
        await asyncio.to_thread(network.add, rig.name)
        await rig.start()
        return rig.name

    async def _lose_leader(self) -> None:
        network = self._fleet.network
        leader = await asyncio.to_thread(self._fleet.leader)
        await asyncio.to_thread(network.cut, leader.name)
        leader.kill()
        await asyncio.to_thread(network.remove, leader.name)
        await a_while(self._rng)
        await asyncio.to_thread(network.add, leader.name)
        leader.start()
        await leader.until_healthy()

    async def _restart_half(self) -> None:
        half = self._rng.sample(self._fleet.rigs, len(self._fleet.rigs) // 2)
        await asyncio.gather(*(self.hosts.restart(rig) for rig in half))
