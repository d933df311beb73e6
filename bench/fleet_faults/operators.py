"""Operators of the simulated fleet: they give and take back orders, and move models, also two at a time."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from random import Random

    from bench.fleet_faults.disturbances import Disturbances
    from bench.fleet_faults.host import SimulatedHost
    from bench.fleet_faults.network import SimulatedNetwork
    from bench.fleet_faults.rules import Rules

    from hotseat.fleet.view import Order
    from hotseat.identifiers import HostName, Seconds

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
