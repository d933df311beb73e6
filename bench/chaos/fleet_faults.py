"""Injects faults into a fleet while clients use it: each fault once, in the seed's order, then each again."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from bench.chaos.hotseat_process import send_signal
from bench.chaos.injecting import Injector
from bench.chaos.requests import REAL, STUBS
from tests.support.processes import command_line

from hotseat.fleet.records import HostOrder

if TYPE_CHECKING:
    import random

    from bench.chaos.fleet import Fleet
    from bench.chaos.hotseat_process import HotseatProcess
    from bench.chaos.tcp_links import Wire

SHORT_S, LEASE_AND_MORE_S = 2.0, 12.0


class FleetInjector(Injector):
    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        super().__init__(rng)
        self._fleet = fleet
        self._deck: list[str] = []
        self._faults = {
            "kill -9 of a host": self._kill_host,
            "SIGTERM of a host": self._restart_host,
            "SIGSTOP of a host": self._stop_host,
            "kill -9 of NATS' leader": self._kill_leader,
            "all of NATS is down": self._kill_nats,
            "a host is cut off from NATS": lambda: self._part(self._fleet.lines),
            "a host is out of reach": lambda: self._part({name: [wire] for name, wire in self._fleet.wires.items()}),
            "a host is cut off from all": lambda: self._part(
                {name: [wire, *self._fleet.lines[name]] for name, wire in self._fleet.wires.items()}
            ),
            "kill -9 of a server": self._kill_server,
            "reload with a changed model": self._reload,
            "a host is drained": self._drain,
        }

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._rng.sample(list(self._faults), len(self._faults))
        return self._deck.pop()

    def _any_host(self) -> HotseatProcess:
        return self._rng.choice(self._fleet.rigs)

    async def _a_while(self) -> None:
        """Usually shorter than a lease, sometimes longer."""
        await asyncio.sleep(self._rng.choice([SHORT_S, SHORT_S, SHORT_S, LEASE_AND_MORE_S]))

    # Hosts

    async def _kill_host(self) -> str:
        rig = self._any_host()
        await rig.end(signal.SIGKILL)
        self._fleet.wires[rig.name].cut()
        await self._a_while()
        await self._start(rig)
        return rig.name

    async def _restart_host(self) -> str:
        rig = self._any_host()
        code = await rig.end(signal.SIGTERM)
        self._fleet.wires[rig.name].cut()
        if code != 0:
            self.trouble.append(f"{rig.name} ended with {code} after SIGTERM")
        if left := rig.processes():
            self.trouble.append(f"after SIGTERM of {rig.name} there are still {[command_line(pid) for pid in left]}")
        await self._start(rig)
        return rig.name

    async def _start(self, rig: HotseatProcess) -> None:
        await rig.start()
        await self._fleet.mend(rig)

    async def _stop_host(self) -> None:
        rig = self._any_host()
        send_signal(rig.pid, signal.SIGSTOP)
        await self._a_while()
        send_signal(rig.pid, signal.SIGCONT)

    async def _drain(self) -> None:
        rig = self._any_host()
        await self._fleet.order(rig.name, HostOrder(cordoned=True, drained=True, by="the injector"))
        await self._a_while()
        await self._fleet.order(rig.name, None)

    # Links

    async def _part(self, wires: dict[str, list[Wire]]) -> None:
        rig = self._any_host()
        is_frozen = self._rng.random() < 0.5
        for wire in wires[rig.name]:
            wire.freeze() if is_frozen else wire.cut()
        await self._a_while()
        await self._fleet.mend(rig)

    # NATS

    async def _kill_leader(self) -> None:
        leader = await asyncio.to_thread(self._fleet.leader)
        leader.kill()
        await self._a_while()
        leader.start()
        await leader.until_healthy()

    async def _kill_nats(self) -> None:
        for server in self._fleet.nats:
            server.kill()
        await self._a_while()
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
        await self._a_while()
        for rig in self._fleet.rigs:
            rig.write()
            rig.reload()
