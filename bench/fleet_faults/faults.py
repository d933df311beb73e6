"""The faults, each with its end, and the operators of the fleet, who give orders and move models, two at a time too."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from bench.fleet_faults.host import NAMES

from hotseat.errors import HotseatError
from hotseat.fleet.view import Order
from hotseat.identifiers import HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.network import Disturbances, SimulatedNetwork
    from bench.fleet_faults.rules import Rules
    from bench.fleet_faults.world import World

    from hotseat.identifiers import Seconds

MOVABLE = ("small", "large", "kept")
PATIENCE_S: Seconds = 120.0
"""For one move."""
AGAIN_S: Seconds = 2.0
"""Before an order that could not be taken back is tried again."""


class Operators:
    def __init__(self, rng: Random, network: SimulatedNetwork, disturbances: Disturbances, rules: Rules) -> None:
        self._rng, self._network, self._disturbances, self._rules = rng, network, disturbances, rules

    async def give(self, host: HostName, order: Order) -> None:
        """An order whose outcome is unknown is neither expected nor forbidden."""
        try:
            await self._at().node.fleet_admin.give(host, order)
        except HotseatError:
            self._forget(host)
        else:
            self._rules.given[host] = self._rules.given.get(host, frozenset()) | {order}

    async def take_back(self, host: HostName, order: Order) -> None:
        self._forget(host)
        while not await self._is_taken_back(host, order):  # noqa: ASYNC110 - as a person who tries again
            await asyncio.sleep(AGAIN_S)

    async def _is_taken_back(self, host: HostName, order: Order) -> bool:
        try:
            await self._at().node.fleet_admin.take_back(host, order)
        except HotseatError:
            return False
        return True

    def _forget(self, host: HostName) -> None:
        self._rules.given.pop(host, None)
        self._rules.ordered.pop(host, None)

    async def move(self, model: str, to: HostName) -> str | None:
        """Where the model is then; None if the move failed: it may still be loaded there, when there is memory."""
        now, moved = asyncio.get_running_loop().time, self._rules.loads.moved
        began_at, moved[ModelName(model)] = now(), inf
        try:
            async with asyncio.timeout(PATIENCE_S):  # the host that is asked may end, and with it the command
                done = await self._at().node.fleet_admin.move(model, to)
        except TimeoutError:
            return None
        except HotseatError as error:
            self._rules.loads.check_failed_move(model, to, began_at, error)
            return None
        moved[ModelName(model)] = now()
        return done

    async def move_twice(self, model: str, one: HostName, other: HostName) -> None:
        """Two operators at once: if both moves succeed, they must leave the model on one of the two hosts."""
        done = await asyncio.gather(self.move(model, one), self.move(model, other))
        await asyncio.sleep(1.0)
        there = [name for name in (one, other) if self._has(name, ModelName(model))]
        if all(done) and not there and self._disturbances.is_calm(one, other):
            self._rules.violated("moves", f"{model} was moved to {one} and to {other}, and is on neither")

    def _has(self, name: HostName, model: ModelName) -> bool:
        """Has the move left it there? The host itself may need the memory a moment later."""
        host = self._network.hosts[name]
        is_there = host.dispatcher.questions.requests(model) > 0 or host.has_ready(model) or host.has_evicted(model)
        return is_there or not host.is_awake

    def _at(self) -> SimulatedHost:
        return self._rng.choice(sorted(self._rules.awake(), key=lambda host: host.name))


HOSTS = tuple(map(HostName, NAMES))


async def nats_away(world: World) -> None:
    world.nats.go_away()
    await world.pause(2.0, 40.0)
    world.nats.come_back()


async def nats_loses_its_state(world: World) -> None:
    world.nats.go_away()
    await world.pause(0.5, 20.0)
    world.nats.come_back(is_empty=True)


async def nats_slow(world: World) -> None:
    world.nats.is_slow = True
    await world.pause(5.0, 30.0)
    world.nats.is_slow = False


async def nats_loses_messages(world: World) -> None:
    world.nats.loses = world.rng.uniform(0.05, 0.3)
    await world.pause(5.0, 30.0)
    world.nats.loses = 0.0


async def watches_lapse(world: World) -> None:
    for _ in range(world.rng.randint(1, 8)):
        world.nats.interrupt(world.rng.choice(HOSTS))
        await world.pause(0.0, 3.0)


async def host_cut_off_from_nats(world: World) -> None:
    host = world.rng.choice(HOSTS)
    world.nats.cut_off.add(host)
    world.nats.interrupt(host)
    await world.disturbed(host, 2.0, 60.0)
    world.nats.cut_off.discard(host)


async def host_stopped(world: World) -> None:
    host = world.network.hosts[world.rng.choice(HOSTS)]
    if host.is_leaving:
        return  # a stopped process does not go on with its shutdown, but the timers of a simulated one do
    host.awake.clear()
    await world.disturbed(host.name, 2.0, 200.0)
    host.awake.set()


async def host_killed(world: World) -> None:
    name = world.rng.choice(HOSTS)
    version = world.network.hosts[name].version
    await world.kill(name)
    await world.disturbed(name, 0.2, 40.0)
    await world.start(name, version)


async def host_restarted(world: World) -> None:
    name = world.rng.choice(HOSTS)
    await world.restart(name, world.network.hosts[name].version)


async def new_configuration(world: World) -> None:
    """Rolled out host by host."""
    version = world.rng.choice((1, 2))
    for name in HOSTS:
        await world.restart(name, version)


async def network_cut(world: World) -> None:
    pair = frozenset(world.rng.sample(HOSTS, 2))
    world.network.cut.add(pair)
    await world.pause(2.0, 60.0)
    world.network.cut.discard(pair)
    for name in pair:
        world.disturbances.note(name)


async def path_stalled(world: World) -> None:
    """NATS works, so both hosts renew their leases."""
    pair = frozenset(world.rng.sample(HOSTS, 2))
    world.network.stalled.add(pair)
    await world.pause(5.0, 200.0)
    world.network.stalled.discard(pair)


async def clock_wrong(world: World) -> None:
    host = world.rng.choice(HOSTS)
    world.network.skew_s[host] = world.rng.choice((-90.0, -20.0, 20.0, 90.0))
    await world.disturbed(host, 5.0, 60.0)
    world.network.skew_s.pop(host, None)


async def name_stolen(world: World) -> None:
    name = world.rng.choice(HOSTS)
    await world.start_second(name, f"http://{name}-second:8080")


async def name_stolen_with_the_address(world: World) -> None:
    """By a machine with a copied configuration."""
    name = world.rng.choice(HOSTS)
    await world.start_second(name, f"http://{name}:8080")


async def order(world: World) -> None:
    host, given = world.rng.choice(HOSTS), world.rng.choice(list(Order))
    await world.operators.give(host, given)
    await world.pause(10.0, 80.0)
    await world.operators.take_back(host, given)


async def move(world: World) -> None:
    await world.operators.move(world.rng.choice(MOVABLE), world.rng.choice(HOSTS))


async def move_away_and_back(world: World) -> None:
    model, (one, other) = world.rng.choice(MOVABLE), world.rng.sample(HOSTS, 2)
    for to in (one, other, one):
        await world.operators.move(model, to)
        await world.pause(1.0, 30.0)


async def two_moves(world: World) -> None:
    one, other = world.rng.sample(HOSTS, 2)
    await world.operators.move_twice(world.rng.choice(MOVABLE), one, other)


FAULTS: dict[str, Callable[[World], Awaitable[None]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        nats_away,
        nats_loses_its_state,
        nats_slow,
        nats_loses_messages,
        watches_lapse,
        host_cut_off_from_nats,
        host_stopped,
        host_killed,
        host_restarted,
        new_configuration,
        network_cut,
        path_stalled,
        clock_wrong,
        name_stolen,
        name_stolen_with_the_address,
        order,
        move,
        move_away_and_back,
        two_moves,
    )
}
