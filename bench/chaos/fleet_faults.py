"""Injects faults into a fleet while clients use it: each fault once, in the seed's order, then each again."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from bench.chaos.host_faults import HostFaults, a_while
from bench.chaos.hotseat_process import send_signal
from bench.chaos.injecting import Injector
from bench.chaos.requests import REAL, STUBS

if TYPE_CHECKING:
    import random

    from bench.chaos.fleet import Fleet
    from bench.chaos.tcp_links import Wire


class FleetInjector(Injector):
    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        super().__init__(rng)
        self._fleet = fleet
        self._deck: list[str] = []
        self.hosts = HostFaults(fleet, rng, self)
        self._faults = {
            **self.hosts.by_name,
            "kill -9 of NATS' leader": self._kill_leader,
            "all of NATS is down": self._kill_nats,
            "NATS loses its state": self._empty_nats,
            "a host is cut off from NATS": lambda: self._part(self._fleet.lines),
            "a host is out of reach": lambda: self._part({name: [wire] for name, wire in self._fleet.wires.items()}),
            "a host is cut off from all": lambda: self._part(
                {name: [wire, *self._fleet.lines[name]] for name, wire in self._fleet.wires.items()}
            ),
            "kill -9 of a server": self._kill_server,
            "reload with a changed model": self._reload,
        }

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._rng.sample(list(self._faults), len(self._faults))
        return self._deck.pop()

    # Links

    async def _part(self, wires: dict[str, list[Wire]]) -> None:
        rig = self.hosts.any_host()
        is_frozen = self._rng.random() < 0.5
        for wire in wires[rig.name]:
            wire.freeze() if is_frozen else wire.cut()
        await a_while(self._rng)
        await self._fleet.mend(rig)

    # NATS

    async def _kill_leader(self) -> None:
        leader = await asyncio.to_thread(self._fleet.leader)
        leader.kill()
        await a_while(self._rng)
        leader.start()
        await leader.until_healthy()

    async def _kill_nats(self) -> None:
        for server in self._fleet.nats:
            server.kill()
        await a_while(self._rng)
        await self._start_nats()

    async def _empty_nats(self) -> None:
        """As if all of its disks were lost."""
        for server in self._fleet.nats:
            server.kill()
        await a_while(self._rng)
        for server in self._fleet.nats:
            server.lose_state()
        await self._start_nats()

    async def _start_nats(self) -> None:
        for server in self._fleet.nats:
            server.start()
        for server in self._fleet.nats:
            await server.until_healthy()

    # Models

    async def _kill_server(self) -> None:
        rigs, models = list(self._fleet.rigs), [*STUBS, REAL]
        self._rng.shuffle(rigs)
        self._rng.shuffle(models)
        found = (servers for rig in rigs for model in models if (servers := rig.servers(model)))
        for pid in next(found, []):
            send_signal(pid, signal.SIGKILL)

    async def _reload(self) -> None:
        """Reload all hosts one after the other, as a rollout does, and back."""
        changed = self._rng.choice(list(STUBS))
        for rig in self._fleet.rigs:
            rig.write(changed)
            rig.reload()
            await asyncio.sleep(0.2)
        await a_while(self._rng)
        for rig in self._fleet.rigs:
            rig.write()
            rig.reload()
