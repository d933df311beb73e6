"""The cost of a decision in microseconds of CPU time, by number of models and requests; the best of three runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.scheduling.runs import UNLIMITED_QUEUE
from bench.scheduling.workloads import agents

from hotseat.catalog.catalog import Policy
from hotseat.identifiers import ClientId, ModelName, TicketId
from hotseat.scheduling.commands import Grant, StartUpstream
from hotseat.scheduling.events import RequestArrived, RequestLeft, UpstreamReady
from hotseat.scheduling.scheduler import Scheduler
from hotseat.simulation.scenario import catalog_of
from hotseat.simulation.simulator import NOWHERE, Turns, play
from hotseat.simulation.trace import Memory, Model, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hotseat.identifiers import Instant
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event

SOMEBODY = ClientId("somebody")
PROBES = 200
LONGEST_S = 20.0
"""Filling stops after this time, with the queue as long as it got."""


@dataclass(frozen=True, slots=True)
class Cost:
    what: str
    models: int
    resident: int
    waiting: int
    us_per_event: float
    requested: int = 0
    """The requested queue length; more than `waiting` if filling took too long."""


GROWTH = (
    (10, 4, 100),
    (100, 16, 100),
    (100, 16, 1000),
    (1000, 64, 100),
    (1000, 64, 1000),
    (1000, 64, 10_000),
    (10_000, 64, 10_000),
)
"""Models, residents among them and queued tickets."""


def costs(*, is_quick: bool) -> list[Cost]:
    sizes = GROWTH[: 1 if is_quick else None]
    measured: list[Callable[[], Cost]] = [ready_path, contended, *(partial(crowded, *size) for size in sizes)]
    return [min((measure() for _ in range(3)), key=lambda cost: cost.us_per_event) for measure in measured]


def ready_path() -> Cost:
    """A request that finds its model ready while no other waits, and ends."""
    rig = Filled(models=1, resident=1)
    events = 50_000
    begun = time.process_time()
    for n in range(events // 2):
        rig.scheduler.handle(RequestArrived(TicketId(n + 10), rig.names[0], SOMEBODY), float(n))
        rig.scheduler.handle(RequestLeft(TicketId(n + 10)), n + 0.5)
    return Cost("ready path", 1, 1, 0, (time.process_time() - begun) / events * 1e6)


def contended() -> Cost:
    """Ten agents on ten models of which one fits: every event of the whole run."""
    trace = agents(1, count=10)
    timed = Timed(Scheduler(catalog_of(trace, Policy(max_queue=UNLIMITED_QUEUE))))
    play(trace, timed)
    return Cost("contended", 10, 1, 9, timed.seconds / timed.events * 1e6)


class Timed:
    """The production scheduler with a timer."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._turns = Turns(scheduler)
        self.seconds, self.events = 0.0, 0

    def handle(self, event: Event, now: Instant) -> list[Command]:
        begun = time.process_time()
        commands = self._turns.handle(event, now)
        self.seconds += time.process_time() - begun
        self.events += 1
        return commands

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        return self._turns.draining_since(model, now)


def crowded(models: int, resident: int, waiting: int) -> Cost:
    """Arrivals and departures, of resident and of missing models, at this load."""
    rig = Filled(models, resident)
    waits = rig.fill_queue(waiting)
    probes = list(rig.probes())
    begun = time.process_time()
    for event in probes:
        rig.scheduler.handle(event, 1.0)
    spent = time.process_time() - begun
    return Cost("crowded", models, resident, waits, spent / len(probes) * 1e6, requested=waiting)


class Filled:
    """A scheduler with residents in use, each 1 GiB of a device that they fill."""

    def __init__(self, models: int, resident: int) -> None:
        servers = tuple(Model(f"m{n}", 10.0, 1.0, 4, 1.0) for n in range(models))
        trace = Trace(servers, (), Memory({"gpu0": float(resident)}))
        self.names = [ModelName(server.name) for server in servers]
        self.resident = resident
        self.scheduler = Scheduler(catalog_of(trace, Policy(max_queue=UNLIMITED_QUEUE)))
        self._tickets = 1_000_000
        for name in self.names[:resident]:
            self._make_ready(name)

    def _make_ready(self, name: ModelName) -> None:
        started = self.scheduler.handle(self._arrival(name), 0.0)
        launch = next(command.launch for command in started if isinstance(command, StartUpstream))
        granted = self.scheduler.handle(UpstreamReady(name, launch, NOWHERE), 0.0)
        assert any(isinstance(command, Grant) for command in granted)

    def _arrival(self, name: ModelName) -> RequestArrived:
        self._tickets += 1
        return RequestArrived(TicketId(self._tickets), name, SOMEBODY)

    def fill_queue(self, waiting: int) -> int:
        """Queue so many requests for the missing models; returns how many were queued before the time was up."""
        missing = self.names[self.resident :]
        until = time.monotonic() + LONGEST_S
        for n in range(waiting):
            self.scheduler.handle(self._arrival(missing[n % len(missing)]), 0.5)
            if time.monotonic() > until:
                return n + 1
        return waiting

    def probes(self) -> Iterator[Event]:
        """A request for a resident and one for a missing model, and the end of both."""
        missing = self.names[self.resident :]
        for n in range(PROBES // 4):
            for name in (self.names[n % self.resident], missing[n % len(missing)]):
                arrival = self._arrival(name)
                yield arrival
                yield RequestLeft(arrival.ticket)
