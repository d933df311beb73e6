"""One simulated fleet: four hosts, their clients, some faults at random times, and the rules that must hold."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from bench.fleet_faults.faults import FAULTS, Operators
from bench.fleet_faults.host import ALIAS, KEPT, NAMES, RARE, SimulatedHost
from bench.fleet_faults.network import Disturbances, SimulatedNats, SimulatedNetwork
from bench.fleet_faults.request import OK, SimulatedRequest
from bench.fleet_faults.rules import SETTLE_S, Rules
from tests.support.virtual_time import JumpingLoop

from hotseat.fleet import backoff, membership, orders
from hotseat.fleet.own_state import UnsavedState
from hotseat.identifiers import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.fleet_faults.rules import Violation

    from hotseat.identifiers import Seconds

ASKED = ("small", "large", KEPT, RARE, ALIAS)
MOST_FAULTS = 4
QUIET_S: Seconds = 20.0
"""Before the first fault: all hosts know each other, and some models are ready."""
FAULTS_S: Seconds = 90.0
"""In which the faults begin."""
AGAIN_S: Seconds = 5.0
"""Until a host that ended by itself is started again."""


class Result(NamedTuple):
    seed: int
    faults: tuple[str, ...]
    outcomes: tuple[str, ...]
    """Of each request."""
    violations: tuple[Violation, ...]


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"fleet {seed}")
        clock = asyncio.get_running_loop().time
        self.nats = SimulatedNats(Random(f"nats {seed}"), clock)
        self.network = SimulatedNetwork(Random(f"network {seed}"))
        self.disturbances = Disturbances(self.nats, self.network)
        self.rules = Rules(self.nats, self.network, self.disturbances)
        self.operators = Operators(self.rng, self.network, self.disturbances, self.rules)
        self._states = {name: UnsavedState() for name in NAMES}
        """The state directory of each host."""

    # Hosts

    async def start(self, name: HostName, version: int) -> None:
        if name in self.network.hosts and self.network.hosts[name].is_alive:
            return
        self.network.hosts[name] = SimulatedHost(self.nats, self.network, self.rules, name, version, self._states[name])
        self.disturbances.note(name)

    async def kill(self, name: HostName) -> None:
        host = self.network.hosts[name]
        host.awake.set()
        await host.die()
        self.rules.host_died(host)

    async def restart(self, name: HostName, version: int) -> None:
        host = self.network.hosts[name]
        if host.is_awake and not host.is_leaving:
            self.disturbances.note(name)
            await host.leave()
            self.rules.host_died(host)
            await self.disturbed(name, 0.2, 10.0)
            await self.start(name, version)

    async def start_second(self, name: HostName, address: str) -> None:
        """Another machine with the same name, which must not be let in while the first one holds its lease."""
        first = self.network.hosts[name]
        is_held = first.holds_name
        second = SimulatedHost(self.nats, self.network, self.rules, name, 1, UnsavedState(), address)
        self.disturbances.seconds.append(second)
        await self.pause(15.0, 20.0)
        if second.is_alive:
            if is_held and first.is_awake and self.disturbances.is_calm(name) and self.nats.is_calm(20.0):
                self.rules.violated("stolen name", f"a second {name} was let in")
            await second.die()

    # Time

    async def pause(self, least: Seconds, most: Seconds) -> None:
        await asyncio.sleep(self.rng.uniform(least, most))

    async def disturbed(self, host: HostName, least: Seconds, most: Seconds) -> None:
        self.disturbances.note(host)
        await self.pause(least, most)
        self.disturbances.note(host)

    # The run

    async def run(self, faults: Sequence[str]) -> None:
        for name in NAMES:
            await self.start(HostName(name), 1)
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(work) for work in (self._observe(), self._ask(), self._start_again())]
            await asyncio.sleep(QUIET_S)
            await asyncio.gather(*(self._later(fault) for fault in faults))
            await asyncio.sleep(SETTLE_S)
            await self._check_answers()
            observing, asking, starting = background
            asking.cancel()
            await asyncio.sleep(SETTLE_S)
            self.rules.check_agreement()
            observing.cancel()
            starting.cancel()
        await self.rules.tasks.aclose()
        for host in self.network.hosts.values():
            await host.die()

    async def _later(self, fault: str) -> None:
        await self.pause(0.0, FAULTS_S)
        await FAULTS[fault](self)

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.rules.observe()

    async def _start_again(self) -> None:
        """As systemd does with a host that ended because its name was taken."""
        while True:
            await asyncio.sleep(AGAIN_S)
            for host in [host for host in self.network.hosts.values() if host.was_refused]:
                await self.kill(host.name)
                await self.start(host.name, host.version)

    async def _ask(self) -> None:
        while True:
            await self.pause(0.0, 1.5)
            if awake := sorted(self.rules.awake(), key=lambda host: host.name):
                self.request(self.rng.choice(ASKED), self.rng.choice(awake))

    def request(self, name: str, entry: SimulatedHost) -> SimulatedRequest:
        number, takes_s = len(self.rules.requests), self.rng.choice((0.2, 1.0, 5.0))
        request = SimulatedRequest(number, name, entry, self.network, self.rules, takes_s)
        request.begin()
        return request

    async def _check_answers(self) -> None:
        """Everybody serves every model again."""
        made = [self.request(name, host) for host in self.rules.awake() for name in ASKED]
        await asyncio.sleep(60.0)
        for each in made:
            if each.outcome != OK:
                self.rules.violated("not served", f"{each.name} at {each.entry.name}: {each.outcome or 'no answer'}")


def faults_of(seed: int) -> tuple[str, ...]:
    rng = Random(f"faults {seed}")
    return tuple(rng.choices(list(FAULTS), k=rng.randint(1, MOST_FAULTS)))


def simulate(seed: int, *faults: str) -> Result:
    """One run; the same seed gives the same run."""
    chosen = faults or faults_of(seed)
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        rules = runner.run(_run(seed, chosen))
    return Result(seed, chosen, tuple(request.outcome for request in rules.requests), tuple(rules.violations))


class InternalErrors(logging.Handler):
    """No part may fail in an unexpected way, whatever happens to the fleet."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(logging.ERROR)
        self._rules = rules

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        self._rules.violated("internal error", f"{record.getMessage()}: {problem!r}")


@contextmanager
def noticed(errors: InternalErrors) -> Iterator[None]:
    """Also where the log is off."""
    logger = logging.getLogger("hotseat")
    before = logger.level
    logger.setLevel(min(logger.getEffectiveLevel(), logging.ERROR))
    logger.addHandler(errors)
    try:
        yield
    finally:
        logger.removeHandler(errors)
        logger.setLevel(before)


async def _run(seed: int, faults: Sequence[str]) -> Rules:
    chance = Random(f"chance {seed}").uniform
    clock = asyncio.get_running_loop().time
    with (
        patch.object(backoff, "chance", chance),
        patch.object(membership, "chance", chance),
        patch.object(orders, "now_ms", lambda: int(clock() * 1000)),
    ):
        world = World(seed)
        with noticed(InternalErrors(world.rules)):
            await world.run(faults)
    return world.rules
