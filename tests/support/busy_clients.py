"""Clients in a closed loop on a simulated clock: measures waiting times and numbers of loads."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.support.world import NEVER, Life, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.world import Server

    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Instant, ModelName, Seconds, TicketId


@dataclass(frozen=True)
class Pace:
    load: Seconds
    stop: Seconds
    service: Seconds


class BusyClients:
    """Each client requests its model again as soon as it was served."""

    def __init__(self, catalog: Catalog, pace: Pace) -> None:
        self.world = World(catalog)
        self.pace = pace
        self.loads = 0
        self.longest_wait: dict[ModelName, Seconds] = dict.fromkeys(catalog.models, 0.0)
        self._agenda: list[tuple[Instant, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._asked: dict[TicketId, Instant] = {}
        self._known: set[object] = set()

    def run(self, clients: list[ModelName], until: Instant) -> None:
        for number, model in enumerate(clients):
            self._at(0.1 * number, partial(self._ask, model))
        while self.world.now < until:
            self._step()

    def _step(self) -> None:
        """Process the next scheduled event, or the scheduler's own timer."""
        due = self._agenda[0][0] if self._agenda else NEVER
        if self.world.wake <= due:
            self.world.pass_time(self.world.wake - self.world.now)
        else:
            self.world.pass_time(due - self.world.now)
            heapq.heappop(self._agenda)[2]()
        self._look_around()

    def _look_around(self) -> None:
        """Schedule the results of the scheduler's commands."""
        for server in [*self.world.servers.values()]:
            if self._is_news((server.launch, server.life)):
                self._follow(server)
        for ticket, lease in [*self.world.leases.items()]:
            if self._is_news(ticket):
                waited = self.world.now - self._asked.pop(ticket)
                model = lease.server.model
                self.longest_wait[model] = max(self.longest_wait[model], waited)
                self._at(self.pace.service, partial(self._finish, ticket, model))

    def _follow(self, server: Server) -> None:
        if server.life is Life.LOADING:
            self.loads += 1
            self._at(self.pace.load, partial(self.world.become_ready, server))
        elif server.life is Life.STOPPING:
            self._at(self.pace.stop, partial(self.world.end, server))

    def _ask(self, model: ModelName) -> None:
        self._asked[self.world.arrive(model)] = self.world.now

    def _finish(self, ticket: TicketId, model: ModelName) -> None:
        self.world.leave(ticket)
        self._ask(model)

    def _is_news(self, thing: object) -> bool:
        is_news = thing not in self._known
        self._known.add(thing)
        return is_news

    def _at(self, seconds: Seconds, action: Callable[[], object]) -> None:
        heapq.heappush(self._agenda, (self.world.now + seconds, next(self._order), action))
