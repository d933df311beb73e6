"""Injects faults into a fleet while clients use it: each fault once, in the seed's order, then each again."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from bench.chaos.checker import Alone, Executed
from bench.chaos.fleet import SECRET
from bench.chaos.hotseat_process import send_signal
from bench.chaos.injecting import HUNG, RESTARTED, Injected, Injector
from bench.chaos.requests import REAL, STUBS
from tests.support.processes import command_line

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from bench.chaos.fleet import Fleet, Wire, WiredFleet
    from bench.chaos.hotseat_process import HotseatProcess

SHORT_S, LEASE_AND_MORE_S = 2.0, 12.0
SHORTEST_HANG_S, LONGEST_HANG_S = 5.0, 40.0
"""Others end what they have forwarded to a host that hangs after about half of the longest time."""
OTHER_SECRET = "known-to-nobody-else"


async def a_while(rng: random.Random) -> None:
    """Usually shorter than a lease, sometimes longer."""
    await asyncio.sleep(rng.choice([SHORT_S, SHORT_S, SHORT_S, LEASE_AND_MORE_S]))


class HostFaults:
    def __init__(self, fleet: Fleet, rng: random.Random, injector: Injector) -> None:
        self._fleet, self._rng, self._injector = fleet, rng, injector
        self.alone: list[Alone] = []
        """Hosts with another secret."""
        self.by_name: dict[str, Callable[[], Awaitable[str | None]]] = {
            "kill -9 of a host": self._kill,
            RESTARTED: self._restart,
            "SIGSTOP of a host": self._stop,
            HUNG: self._hang,
            "a host is drained": self._drain,
            "a host has another secret": self._change_secret,
        }

    def any_host(self) -> HotseatProcess:
        return self._rng.choice(self._fleet.rigs)

    def _note(self, trouble: str) -> None:
        self._injector.trouble.append(trouble)

    # Its process

    async def _kill(self) -> str:
        rig = self.any_host()
        await rig.end(signal.SIGKILL)
        self._fleet.disconnect(rig)
        await a_while(self._rng)
        await self._start(rig)
        return rig.name

    async def _restart(self) -> str:
        rig = self.any_host()
        await self._end(rig)
        await self._start(rig)
        return rig.name

    async def _end(self, rig: HotseatProcess) -> None:
        code = await rig.end(signal.SIGTERM)
        self._fleet.disconnect(rig)
        if code != 0:
            self._note(f"{rig.name} ended with {code} after SIGTERM")
        if left := rig.processes():
            self._note(f"after SIGTERM of {rig.name} there are still {[command_line(pid) for pid in left]}")

    async def _start(self, rig: HotseatProcess) -> None:
        await rig.start()
        await self._fleet.mend(rig)

    async def _stop(self) -> None:
        rig = self.any_host()
        send_signal(rig.pid, signal.SIGSTOP)
        await a_while(self._rng)
        send_signal(rig.pid, signal.SIGCONT)

    async def _hang(self) -> str:
        rig = self.any_host()
        send_signal(rig.pid, signal.SIGSTOP)
        await asyncio.sleep(self._rng.uniform(SHORTEST_HANG_S, LONGEST_HANG_S))
        send_signal(rig.pid, signal.SIGCONT)
        return rig.name

    # Its orders

    async def _drain(self) -> None:
        rig = self.any_host()
        if not await self._fleet.order("PUT", rig):
            self._note(f"{rig.name} could not be drained")
        await a_while(self._rng)
        if not await self._fleet.order("DELETE", rig):
            self._note(f"the drain of {rig.name} could not be ended")

    # Its secret

    async def _change_secret(self) -> str:
        """It is no member meanwhile, and only its restarts may be noticed: they are recorded as such."""
        rig = self.any_host()
        await self._restart_with(rig, OTHER_SECRET)
        executed = Executed(self._fleet.rigs)
        await a_while(self._rng)
        if not await self._fleet.is_alone(rig):
            self._note(f"{rig.name} has another secret, and it or another host takes it for a member")
        self.alone.append(executed.alone(rig))
        await self._restart_with(rig, SECRET)
        return rig.name

    async def _restart_with(self, rig: HotseatProcess, secret: str) -> None:
        rig.fleet = {**rig.fleet, "secret": secret}
        rig.write()
        await self.restart(rig)

    async def restart(self, rig: HotseatProcess) -> None:
        """As a part of another fault: recorded by itself."""
        began = time.monotonic()
        await self._end(rig)
        await self._start(rig)
        self._injector.injected.append(Injected(RESTARTED, began, time.monotonic(), rig.name))


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
            **self._links(),
            "kill -9 of a server": self._kill_server,
            "reload with a changed model": self._reload,
        }

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._rng.sample(list(self._faults), len(self._faults))
        return self._deck.pop()

    def _links(self) -> dict[str, Callable[[], Awaitable[str | None]]]:
        """Faults of links, which subclasses can inject."""
        raise NotImplementedError

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


class WiredInjector(FleetInjector):
    _fleet: WiredFleet

    def _links(self) -> dict[str, Callable[[], Awaitable[str | None]]]:
        wires, lines = self._fleet.wires, self._fleet.lines
        return {
            "a host is cut off from NATS": lambda: self._part(lines),
            "a host is out of reach": lambda: self._part({name: [wire] for name, wire in wires.items()}),
            "a host is cut off from all": lambda: self._part(
                {name: [wire, *lines[name]] for name, wire in wires.items()}
            ),
        }

    async def _part(self, wires: dict[str, list[Wire]]) -> None:
        rig = self.hosts.any_host()
        is_frozen = self._rng.random() < 0.5
        for wire in wires[rig.name]:
            wire.freeze() if is_frozen else wire.cut()
        await a_while(self._rng)
        await self._fleet.mend(rig)
