"""One host: the production scheduler with simulated servers, on a clock that jumps to the next event.

A fleet's configuration may have ten thousand models, of which a host uses a few at a time. Its scheduler gets those
that are resident or requested; a requested model is added as by a reload, and what was learned of a removed one is
kept. Loads share one disk and run one after the other.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from bench.fleet.workload import SLOTS, STOP_S

from hotseat.catalog.catalog import Catalog, Policy
from hotseat.catalog.groups import TOGETHER, Groups
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.fleet.records import DeviceBudget, HostRecord, Residence
from hotseat.identifiers import LOCAL_HOST, Address, ClientId, DeviceName, Place, TicketId, Upstream
from hotseat.scheduling.commands import Grant, Refuse, StartUpstream, StopUpstream, WakeAt
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    LoadRequested,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
    UpstreamExited,
    UpstreamReady,
)
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fleet.workload import Ask, Machine, Model

    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.state import ModelState


class Clock:
    __slots__ = ("_coming", "_number", "now")

    def __init__(self) -> None:
        self.now: Instant = 0.0
        self._coming: list[tuple[Instant, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when: Instant, happens: Callable[..., None], *about: Any) -> None:
        # The number keeps simultaneous events in the order in which they were scheduled. Any: arguments differ.
        self._number += 1
        heapq.heappush(self._coming, (when, self._number, happens, about))

    def run_until(self, end: Instant) -> None:
        while self._coming and self._coming[0][0] <= end:
            self.now, _, happens, about = heapq.heappop(self._coming)
            happens(*about)
        self.now = max(self.now, end)


GIB = 1 << 30
GPU = DeviceName("gpu0")
THIS_HOST = Place(LOCAL_HOST, GPU)
NO_PROCESS = LaunchRecipe(argv=("simulated",), proxy="http://simulated")
NOWHERE = Upstream(Address("simulated", 0))
GROUPS = Groups(default=TOGETHER)
POLICY = Policy(max_queue=64)
"""An eighth of the default: a request that would wait for minutes is refused, and may try another host."""
KNOWN = 24
"""The number of models in a host's catalog above which unused ones are removed."""
TAKES_MEMORY = (Phase.LOADING, Phase.READY, Phase.DRAINING, Phase.UNLOADING)


@dataclass(slots=True)
class Request:
    ask: Ask
    group: int
    """The group of hosts that placed it."""
    host: Host | None = None
    ticket: TicketId = TicketId(0)  # noqa: RUF009  # a number
    started: Instant | None = None


class Watcher(Protocol):
    """Receives the events of a host."""

    def granted(self, host: Host, request: Request) -> None: ...

    def ended(self, host: Host, request: Request) -> None: ...

    def refused(self, host: Host, request: Request) -> None: ...

    def changed(self, host: Host) -> None:
        """A phase changed: the host has a new record."""

    def loads(self, host: Host, model: ModelName) -> None: ...

    def loaded(self, host: Host, model: ModelName) -> None:
        """Or given up."""


class Host:
    def __init__(self, machine: Machine, clock: Clock, watcher: Watcher, catalog: str) -> None:
        self.machine = machine
        self.boot = 0
        self.is_up = True
        self.busy_s: Seconds = 0.0
        self.shown: set[ModelName] = set()
        """The models in its last record."""
        self._clock, self._watcher, self._digest = clock, watcher, catalog
        self._begin()

    def _begin(self) -> None:
        """Empty, as after a start."""
        self.requests: dict[TicketId, Request] = {}
        self._models: dict[ModelName, Model] = {}
        self._specs: dict[ModelName, ModelSpec] = {}
        self._scheduler = Scheduler(self._catalog())
        self._tickets = 0
        self._alarm: Instant | None = None
        self._disk: deque[tuple[ModelName, LaunchId]] = deque()
        self._draining: list[ModelName] = []

    def fail(self) -> list[Request]:
        """Lose everything; returns the affected requests."""
        lost = list(self.requests.values())
        self.is_up = False
        self.boot += 1
        self._begin()
        return lost

    def come_back(self) -> None:
        self.is_up = True

    def loading(self) -> list[ModelName]:
        return [model for model, _ in self._disk]

    # Requests

    def serve(self, request: Request) -> None:
        self._know(request.ask.model)
        request.host, request.ticket = self, self._next_ticket()
        self.requests[request.ticket] = request
        self._tell(RequestArrived(request.ticket, request.ask.model.name, request.ask.client))

    def load(self, model: Model) -> None:
        self._know(model)
        self._tell(LoadRequested(self._next_ticket(), model.name, ClientId("fleet")))

    def unload(self, model: ModelName) -> None:
        self._tell(UnloadRequested(self._next_ticket(), model))

    def in_line(self, model: ModelName) -> int:
        """Requests that use or wait for it."""
        state = self._state(model)
        return len(state.leases) + self._line_of(model) if state else 0

    def _next_ticket(self) -> TicketId:
        self._tickets += 1
        return TicketId(self._tickets)

    def _know(self, model: Model) -> None:
        if model.name in self._models:
            return
        if len(self._models) >= KNOWN:
            needed = self._scheduler._state.active
            self._models = {name: each for name, each in self._models.items() if name in needed or self._line_of(name)}
        self._models[model.name] = model
        self._tell(CatalogChanged(self._catalog()))

    def _catalog(self) -> Catalog:
        self._specs = {name: self._specs.get(name) or spec_of(model) for name, model in self._models.items()}
        return Catalog(self._specs, GROUPS, {THIS_HOST: self.machine.gib * GIB}, POLICY)

    # Its record. The scheduler's view would also explain every wait, which takes ten times as long.

    def record(self) -> HostRecord:
        state = self._scheduler._state
        residents = [self._residence(model) for model in state.active.values() if model.phase in TAKES_MEMORY]
        residents += [self._residence(state.models[name]) for name in state.queue.models() if name not in state.active]
        self.shown = {residence.model for residence in residents}
        taken = sum(residence.memory.get(GPU, 0) for residence in residents if residence.phase != "cold")
        budget = self.machine.gib * GIB
        return HostRecord(
            name=self.machine.name,
            address=f"http://{self.machine.name}.fleet:8080",
            boot=str(self.boot),
            catalog=self._digest,
            labels={"site": self.machine.site} if self.machine.site else {},
            devices={GPU: DeviceBudget(budget, budget - taken)},
            residents=residents,
            version="simulated",
        )

    def _residence(self, model: ModelState) -> Residence:
        now, waiting = self._clock.now, self._line_of(model.name)
        is_used = bool(model.leases) or model.phase is not Phase.READY
        return Residence(
            model=model.name,
            phase=model.phase.value,
            memory={GPU: self._models[model.name].gib * GIB},
            in_flight=len(model.leases),
            waiting=waiting,
            slots=SLOTS,
            idle_s=0.0 if is_used else round(now - model.idle_since, 1),
            load_s=round(self._scheduler.model_stats.load_s(model.name), 1),
            oldest_wait_s=round(now - self._scheduler._state.queue.oldest(model.name), 1) if waiting else 0.0,
        )

    def _state(self, model: ModelName) -> ModelState | None:
        return self._scheduler._state.models.get(model)

    def _line_of(self, model: ModelName) -> int:
        return self._scheduler._state.queue.count(model)

    # Its servers

    def _tell(self, event: Event) -> None:
        for command in self._scheduler.handle(event, self._clock.now):
            self._carry_out(command)
        self._look_for_drains()

    def _look_for_drains(self) -> None:
        """Draining is not a command, so look for it; models drain only while a request waits."""
        state = self._scheduler._state
        if not state.queue.model_of:
            return
        draining = [model.name for model in state.active.values() if model.phase is Phase.DRAINING]
        if draining != self._draining:
            self._draining = draining
            self._watcher.changed(self)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant(ticket=ticket):
                self._grant(self.requests[ticket])
            case Refuse(ticket=ticket):
                if request := self.requests.pop(ticket, None):
                    self._watcher.refused(self, request)
            case StartUpstream():
                self._start(command)
            case StopUpstream():
                self._stop(command)
            case WakeAt(when=when):
                self._alarm = when
                self._clock.at(max(when, self._clock.now), self._ring, self.boot, when)
            case _:
                pass  # this host has no operator and no files

    def _grant(self, request: Request) -> None:
        request.started = self._clock.now
        self._clock.at(self._clock.now + request.ask.service_s, self._finish, self.boot, request)
        self._watcher.granted(self, request)

    def _finish(self, boot: int, request: Request) -> None:
        if boot != self.boot:
            return
        del self.requests[request.ticket]
        self.busy_s += request.ask.service_s
        self._tell(RequestLeft(request.ticket))
        self._watcher.ended(self, request)

    def _start(self, command: StartUpstream) -> None:
        self._watcher.loads(self, command.model)
        self._disk.append((command.model, command.launch))
        if len(self._disk) == 1:
            self._read()
        self._watcher.changed(self)

    def _read(self) -> None:
        model, launch = self._disk[0]
        self._clock.at(self._clock.now + self._models[model].load_s, self._loaded, self.boot, model, launch)

    def _loaded(self, boot: int, model: ModelName, launch: LaunchId) -> None:
        if boot != self.boot or not self._disk or self._disk[0] != (model, launch):
            return
        self._disk.popleft()
        if self._disk:
            self._read()
        self._watcher.loaded(self, model)
        self._tell(UpstreamReady(model, launch, NOWHERE))
        self._watcher.changed(self)

    def _stop(self, command: StopUpstream) -> None:
        load = (command.model, command.launch)
        if load in self._disk:
            was_read = self._disk[0] == load
            self._watcher.loaded(self, command.model)
            self._disk.remove(load)
            if was_read and self._disk:
                self._read()
        self._clock.at(self._clock.now + STOP_S, self._gone, self.boot, *load)
        self._watcher.changed(self)

    def _gone(self, boot: int, model: ModelName, launch: LaunchId) -> None:
        if boot != self.boot:
            return
        self._tell(UpstreamExited(model, launch, "stopped as requested"))
        self._watcher.changed(self)

    def _ring(self, boot: int, when: Instant) -> None:
        if boot == self.boot and when == self._alarm:
            self._alarm = None
            self._tell(ClockReached())


def spec_of(model: Model) -> ModelSpec:
    return ModelSpec(model.name, NO_PROCESS, concurrency_limit=SLOTS, memory={THIS_HOST: model.gib * GIB})
