"""The run in a fleet: clients ask any host, and after the faults every host must answer for all models."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.chaos.checker import crossings
from bench.chaos.client import Client, End
from bench.chaos.fleet import REPLICAS, fleet_of
from bench.chaos.fleet_faults import FleetInjector, WiredInjector
from bench.chaos.namespaced_fleet import NamespacedInjector, namespaced_fleet
from bench.chaos.requests import REAL, STUBS, Behaviour, Kind, PlannedRequest
from bench.chaos.run import Outcome, Run, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bench.chaos.fleet import Fleet
    from bench.chaos.hotseat_process import HotseatProcess
    from tests.support.nats import NatsServer

HOSTS = "hotseat "
"""The prefix of their connection names."""


@dataclass(frozen=True, slots=True)
class Control:
    """Per host and second."""

    messages: float
    bytes: float
    requests_per_s: float

    @classmethod
    def between(
        cls, before: Counter[str], after: Counter[str], seconds: float, hosts: int, requests_per_s: float
    ) -> Control:
        said = after - before
        messages, size = said["in_msgs"] + said["out_msgs"], said["in_bytes"] + said["out_bytes"]
        return cls(messages / seconds / hosts, size / seconds / hosts, requests_per_s)

    def __str__(self) -> str:
        said = f"{self.messages:.1f} messages and {self.bytes / 1000:.1f} kB per host and second"
        return f"{self.requests_per_s:.1f} requests/s: {said}"


async def control_of(servers: list[NatsServer]) -> Counter[str]:
    """Of all connections of hosts since they were opened, in both directions."""
    total: Counter[str] = Counter()
    for server in servers:
        for connection in (await asyncio.to_thread(server.monitoring, "connz"))["connections"]:
            if connection.get("name", "").startswith(HOSTS):
                total.update({key: connection[key] for key in ("in_msgs", "out_msgs", "in_bytes", "out_bytes")})
    return total


LEASE_S, LOAD_S = 10.0, 40.0
HEALS_S = LEASE_S + LOAD_S
"""On a busy machine a load takes that long, including the evictions for it."""
AGAIN_S = 0.5
ONE_TOO_MANY = "may have it"
"""A host logs this when it unloads a replica that a split made surplus."""
MEASURED_S = 6.0
LIGHT_CLIENTS, HEAVY_CLIENTS = 1, 16
LIGHT_PAUSE_S = 1.0
MORE_THAN_NOISE = 3.0
"""Under load a host may send so many times what it sends at rest: another renewal, a phase that changed."""


async def run_fleet(
    count: int, in_namespaces: bool, seed: int, seconds: float, most: int | None, say: Callable[[str], None]
) -> Outcome:
    """Chaos in a fleet of so many hosts."""
    rng = random.Random(f"{seed}/injector")
    with tempfile.TemporaryDirectory(prefix="hotseat-fleet-chaos-") as folder:
        if in_namespaces:
            async with namespaced_fleet(count, Path(folder)) as apart:
                return await FleetRun(apart, NamespacedInjector(apart, rng), seed, most, say).play(seconds)
        async with fleet_of(count, Path(folder)) as fleet:
            return await FleetRun(fleet, WiredInjector(fleet, rng), seed, most, say).play(seconds)


class FleetRun(Run):
    CLIENTS = 24

    def __init__(
        self, fleet: Fleet, injector: FleetInjector, seed: int, most: int | None, say: Callable[[str], None]
    ) -> None:
        super().__init__(fleet.rigs, injector, seed, most, say)
        self._fleet, self._hosts = fleet, injector.hosts
        self._asked = 0

    async def _open(self) -> None:
        await super()._open()
        await self._fleet.until_connected()
        self._say(f"{len(self._rigs)} hosts are connected")
        ahead = f"{self._rigs[-1].name} is a day ahead" if self._fleet.has_skew else "all the same"
        self._notes.append(f"monotonic clocks: {ahead}")

    # Before: messages between hosts under light and heavy load

    async def _calm(self) -> AsyncIterator[str]:
        await asyncio.gather(*(self._asks("red", rig) for rig in self._rigs))
        await asyncio.sleep(LEASE_S / 2)  # until all hosts know it
        light = await self._measured(LIGHT_CLIENTS, LIGHT_PAUSE_S)
        heavy = await self._measured(HEAVY_CLIENTS, 0)
        self._notes += [f"control traffic, {light}", f"control traffic, {heavy}"]
        if heavy.messages > MORE_THAN_NOISE * light.messages:
            yield f"what hosts tell each other grows with requests: {light}, then {heavy}"

    async def _measured(self, clients: int, pause_s: float) -> Control:
        asked, before, began = self._asked, await control_of(self._fleet.nats), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for n in range(clients):
                group.create_task(self._keep_asking(self._rigs[n % len(self._rigs)], pause_s))
        took_s = time.monotonic() - began
        after = await control_of(self._fleet.nats)
        return Control.between(before, after, took_s, len(self._rigs), (self._asked - asked) / took_s)

    async def _keep_asking(self, rig: HotseatProcess, pause_s: float) -> None:
        began = time.monotonic()
        while time.monotonic() < began + MEASURED_S:
            await self._asks("red", rig)
            await asyncio.sleep(pause_s)

    async def _asks(self, model: str, rig: HotseatProcess) -> bool:
        self._asked += 1
        client = Client(rig.at, rig.name)
        result = await client.ask(PlannedRequest(f"calm-{self._asked}", model, Kind.UNARY, "", Behaviour.PATIENT, 8, 0))
        client.close()
        self._results.append(result)
        return result.end is End.WHOLE

    # After: every host serves every model, and no model has too many replicas

    async def _healed(self) -> AsyncIterator[str]:
        for problem in crossings(self._hosts.alone, self._results):
            yield problem
        began = time.monotonic()
        asked = [(rig, model) for rig in self._rigs for model in (*STUBS, REAL)]
        healed = await asyncio.gather(*(self._heals(rig, model, began + HEALS_S) for rig, model in asked))
        for (rig, model), took_s in zip(asked, healed, strict=True):
            if took_s is None:
                yield f"{HEALS_S:.0f} s after the last fault {rig.name} does not answer for {model}"
        longest = max((took_s for took_s in healed if took_s is not None), default=0.0)
        self._notes.append(f"every host answers for every model {longest:.1f} s after the last fault")
        extra = await self._extra(began + HEALS_S)
        went = sum(rig.log.read_text().count(ONE_TOO_MANY) for rig in self._rigs)
        self._notes.append(f"loads too many, after which the replica went again: {went}")
        if extra:
            yield f"{HEALS_S:.0f} s after the last fault these are on more hosts than they may: {extra}"

    async def _heals(self, rig: HotseatProcess, model: str, until: float) -> float | None:
        began = time.monotonic()
        while time.monotonic() < until:
            if await self._asks(model, rig):
                return time.monotonic() - began
            await asyncio.sleep(AGAIN_S)
        return None

    async def _extra(self, until: float) -> dict[str, int]:
        """Models that stay on more hosts than their replicas.max."""
        while True:
            there = Counter([model for rig in self._rigs for model in await running(rig)])
            extra = {model: count for model, count in there.items() if count > REPLICAS.get(model, {}).get("max", 1)}
            if not extra or time.monotonic() > until:
                return extra
            await asyncio.sleep(AGAIN_S)
