"""Runs clients and model servers of a trace against a scheduler on a virtual clock, and records each request.

The decider is the production scheduler, or any other with the same `handle`. Starts take `load`, stops take `stop`,
requests take `service` and at most `slots` of them run at a time. A request also takes the time to compute again what
its server has lost of its conversation. Loads share one disk, so they run one after the other by default. The
simulation is deterministic: the same trace gives the same run.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from hotseat.identifiers import Address, ClientId, ModelName, TicketId, Upstream
from hotseat.scheduling.commands import (
    Confirm,
    Cut,
    Grant,
    PutToSleep,
    ReadAhead,
    Refuse,
    ReportFailure,
    ReportSwap,
    RestoreConversations,
    SaveConversations,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeAt,
    WakeUp,
)
from hotseat.scheduling.events import (
    ClockReached,
    ConversationsRestored,
    ConversationsSaved,
    RequestArrived,
    RequestLeft,
    UpstreamExited,
    UpstreamReady,
)
from hotseat.simulation.conversations import Conversations
from hotseat.simulation.results import Request, Run, Stay
from hotseat.simulation.trace import Bursts, Client, Closed, Job, Open, Pool, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hotseat.identifiers import Instant
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event, PromptProcessed
    from hotseat.scheduling.scheduler import Scheduler
    from hotseat.simulation.trace import Burst, Model, Trace

PATIENCE = 1000
"""How often a decider may be woken at the same time before that counts as an endless loop."""

NOWHERE = Upstream(Address("simulated", 0))


class Decider(Protocol):
    def handle(self, event: Event, now: Instant) -> list[Command]: ...

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        """Since when the model drains; None: it does not."""


class Turns:
    """The production scheduler as a Decider."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.handle = scheduler.handle
        self._scheduler = scheduler

    def draining_since(self, model: ModelName, now: Instant) -> Instant | None:
        return self._scheduler.draining_since(model)


@dataclass(slots=True)
class Server:
    """A simulated model server and its requests."""

    physics: Model
    conversations: Conversations
    stay: Stay | None = None
    running: int = 0
    queue: deque[Request] = field(default_factory=deque)

    @property
    def is_busy(self) -> bool:
        return self.running > 0 or bool(self.queue)


class Standstill(AssertionError):
    """The decider asks to be woken at the same time endlessly."""


def play(trace: Trace, decider: Decider, loads_at_a_time: int = 1) -> Run:
    """Simulate the whole trace; returns when no event is left."""
    return Simulator(trace, decider, loads_at_a_time).run()


class Simulator:
    def __init__(self, trace: Trace, decider: Decider, loads_at_a_time: int) -> None:
        self._decider = decider
        self._servers = {ModelName(model.name): Server(model, Conversations(model)) for model in trace.models}
        self._replays = [replay_of(client) for client in trace.clients]
        self._batches = frozenset(client.client for client in trace.clients if isinstance(client, Pool))
        self._now: Instant = 0.0
        self._coming: list[tuple[Instant, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = 0
        self._alarm: Instant | None = None
        self._last_rung: Instant | None = None
        self._rung = 0
        """How often the alarm rang at this time."""
        self._owners: list[Replay] = []
        self._requests: list[Request] = []
        self._stays: list[Stay] = []
        self._loads_at_a_time = loads_at_a_time
        self._loading: list[Stay] = []
        self._waiting_for_disk: deque[Stay] = deque()

    def run(self) -> Run:
        for replay in self._replays:
            self._ask_next(replay, replay.begin())
        while self._coming:
            self._now, _, happens, about = heapq.heappop(self._coming)
            happens(*about)
        return Run(tuple(self._requests), tuple(self._stays), self._batches)

    def _at(self, when: Instant, happens: Callable[..., None], *about: Any) -> None:
        # The number keeps simultaneous events in order. Any: each callback has its own arguments.
        self._numbers += 1
        heapq.heappush(self._coming, (when, self._numbers, happens, about))

    # Clients

    def _ask_next(self, replay: Replay, coming: Iterable[tuple[Instant, Job]]) -> None:
        for when, job in coming:
            self._at(when, self._arrives, replay, job)

    def _arrives(self, replay: Replay, job: Job) -> None:
        ticket = TicketId(len(self._requests))
        request = Request(ticket, replay.client, ModelName(job.model), job.service, self._now, prompt=job.prompt)
        self._requests.append(request)
        self._owners.append(replay)
        self._tell(RequestArrived(ticket, request.model, ClientId(request.client)))

    def _leaves(self, request: Request) -> None:
        """Its client continues, however the request ended."""
        owner = self._owners[request.ticket]
        self._ask_next(owner, owner.after(self._now))

    # Servers

    def _forward(self, request: Request) -> None:
        server = self._servers[request.model]
        server.queue.append(request)
        self._work(server)

    def _work(self, server: Server) -> None:
        slots = server.physics.slots
        while server.queue and (slots is None or server.running < slots):
            request = server.queue.popleft()
            request.started = self._now
            server.running += 1
            prompt = server.conversations.begin(request)
            took_s = request.service + (request.recomputed_s or 0.0)
            self._at(self._now + took_s, self._finishes, server, request, prompt)

    def _finishes(self, server: Server, request: Request, prompt: PromptProcessed | None) -> None:
        request.finished = self._now
        server.conversations.end(request, self._now)
        server.running -= 1
        self._work(server)
        self._note_draining(server)
        if prompt is not None:
            self._tell(prompt)
        self._tell(RequestLeft(request.ticket, is_answered=True))
        self._leaves(request)

    def _note_draining(self, server: Server) -> None:
        """No command announces draining, so ask for it; a drain ends with the last request, so this is soon enough."""
        if server.stay and not server.is_busy:
            server.stay.draining = self._decider.draining_since(server.stay.model, self._now)

    def _start(self, command: StartUpstream) -> None:
        stay = Stay(command.model, command.launch, self._now)
        self._servers[command.model].stay = stay
        self._stays.append(stay)
        self._waiting_for_disk.append(stay)
        self._load_next()

    def _load_next(self) -> None:
        while self._waiting_for_disk and len(self._loading) < self._loads_at_a_time:
            stay = self._waiting_for_disk.popleft()
            self._loading.append(stay)
            self._at(self._now + self._servers[stay.model].physics.load, self._loaded, stay)

    def _loaded(self, stay: Stay) -> None:
        if stay not in self._loading:  # it was abandoned
            return
        self._loading.remove(stay)
        stay.ready = self._now
        self._load_next()
        self._tell(UpstreamReady(stay.model, stay.launch, NOWHERE))

    def _restore(self, command: RestoreConversations) -> None:
        outcome = self._servers[command.model].conversations.restore(command.allowance)
        stay = self._stay_of(command)
        stay.ready = self._now + outcome.took_s
        self._at(stay.ready, self._tell, ConversationsRestored(command.model, command.launch, outcome.transfers))

    def _save(self, command: SaveConversations) -> None:
        outcome = self._servers[command.model].conversations.save(command.allowance, self._now)
        self._stay_of(command).stopping = self._now
        saved = ConversationsSaved(command.model, command.launch, outcome.transfers, unfinished=outcome.unfinished)
        self._at(self._now + outcome.took_s, self._tell, saved)

    def _stop(self, command: StopUpstream) -> None:
        server, stay = self._servers[command.model], self._stay_of(command)
        if stay.stopping is None:  # no conversations were saved first
            stay.stopping = self._now
        for line in (self._loading, self._waiting_for_disk):
            if stay in line:
                line.remove(stay)
        self._at(self._now + server.physics.stop, self._gone, stay)
        self._load_next()

    def _stay_of(self, command: RestoreConversations | SaveConversations | StopUpstream) -> Stay:
        server = self._servers[command.model]
        assert server.stay is not None
        assert server.stay.launch == command.launch
        assert not server.is_busy, f"{command.model} was stopped with requests in flight"
        return server.stay

    def _gone(self, stay: Stay) -> None:
        stay.gone = self._now
        server = self._servers[stay.model]
        server.stay = None
        server.conversations.gone()
        self._tell(UpstreamExited(stay.model, stay.launch, "stopped as requested"))

    # Events and commands

    def _tell(self, event: Event) -> None:
        for command in self._decider.handle(event, self._now):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant(ticket=ticket):
                self._forward(self._requests[ticket])
            case Refuse(ticket=ticket):
                self._leaves(self._requests[ticket])
            case StartUpstream():
                self._start(command)
            case StopUpstream():
                self._stop(command)
            case SaveConversations():
                self._save(command)
            case RestoreConversations():
                self._restore(command)
            case WakeAt(when=when):
                self._alarm = when
                self._at(max(when, self._now), self._rings, when)
            case ReportSwap() | ReportFailure() | ReadAhead() | StopReading():
                pass  # no log, no files
            case Confirm() | Cut() | PutToSleep() | WakeUp():
                raise AssertionError(f"the simulation has only requests, loads and stops, but got: {command}")
            case _:
                assert_never(command)

    def _rings(self, when: Instant) -> None:
        if when != self._alarm:  # it was replaced
            return
        self._alarm = None
        self._rung = self._rung + 1 if self._now == self._last_rung else 0
        self._last_rung = self._now
        if self._rung > PATIENCE:
            raise Standstill(f"time does not advance beyond {self._now} s")
        self._tell(ClockReached())


class Replay(Protocol):
    """The requests of one client, in its order."""

    client: str

    def begin(self) -> list[tuple[Instant, Job]]:
        """The first requests and their times."""

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        """After the end of a request: the next ones, after their think time, if any."""


class StepReplay:
    def __init__(self, client: str, start: Instant, width: int, steps: Iterable[Step]) -> None:
        self.client = client
        self._start = start
        self._width = width
        self._left = iter(steps)

    def begin(self) -> list[tuple[Instant, Job]]:
        return [asked for _ in range(self._width) for asked in self.after(self._start)]

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        step = next(self._left, None)
        if step is not None:
            yield finished + step.think, Job(step.model, step.service, step.prompt)


class BurstReplay:
    def __init__(self, client: str, start: Instant, bursts: Iterable[Burst]) -> None:
        self.client = client
        self._start = start
        self._left = iter(bursts)
        self._unanswered = 0

    def begin(self) -> list[tuple[Instant, Job]]:
        return list(self._next(self._start))

    def after(self, finished: Instant) -> Iterator[tuple[Instant, Job]]:
        self._unanswered -= 1
        if not self._unanswered:
            yield from self._next(finished)

    def _next(self, now: Instant) -> Iterator[tuple[Instant, Job]]:
        burst = next(self._left, None)
        if burst is not None:
            self._unanswered = len(burst.jobs)
            yield from ((now + burst.think, job) for job in burst.jobs)


def replay_of(client: Client) -> Replay:
    match client:
        case Open():
            return StepReplay(client.client, client.at, 1, [Step(0.0, client.model, client.service, client.prompt)])
        case Closed():
            return StepReplay(client.client, client.start, 1, client.steps)
        case Bursts():
            return BurstReplay(client.client, client.start, client.bursts)
        case Pool():
            steps = (Step(0.0, job.model, job.service, job.prompt) for job in client.jobs)
            return StepReplay(client.client, client.start, client.width, steps)
        case _:
            assert_never(client)
