"""A model of everything around the scheduler, with its own record of the truth.

Clients, operators and servers act here; each action becomes an event for a real scheduler, and each of its commands is
carried out and checked against what the world itself knows: who waits, which process is alive, who holds a lease.
Nothing is read from the scheduler's state, except to compare its view with the truth. A promise that does not hold
raises Broken, with the history so far.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tests.support import invariants

from hotseat.errors import LoadFailed, NeverFits, NoMemory
from hotseat.identifiers import ANY_GPU, HOST_MEMORY, Address, ClientId, TicketId, Upstream
from hotseat.scheduling.commands import (
    Cause,
    Command,
    Confirm,
    Cut,
    Grant,
    PutToSleep,
    ReadAhead,
    Refuse,
    RestoreConversations,
    SaveConversations,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeAt,
    WakeUp,
)
from hotseat.scheduling.events import (
    CatalogChanged,
    ClockReached,
    ConversationsRestored,
    ConversationsSaved,
    Event,
    HandoverCancelled,
    HandoverRequested,
    KeepAliveChanged,
    LoadRequested,
    RequestArrived,
    RequestLeft,
    ShutdownRequested,
    SleepFailed,
    Transfer,
    UnloadRequested,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    WakeFailed,
)
from hotseat.scheduling.handover import from_json, to_json
from hotseat.scheduling.handover_transitions import adoption
from hotseat.scheduling.lifecycle import Phase
from hotseat.scheduling.memory_pressure import LOOK_AGAIN_S
from hotseat.scheduling.queue import OTHERS_FIRST, PLACES, RequestKind
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.transitions import TRY_ALONE_AGAIN_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Bytes, Instant, LaunchId, ModelName, Place, Seconds
    from hotseat.scheduling.view import View

NEVER: Instant = float("inf")
BATCH = ("client 5", "client 6")
"""Clients whose requests are batch requests."""
ROUNDS = 200
"""More than enough to answer all requests once failures stop: a handful per model is usual."""

SOME_TOKENS = Transfer(tokens=1000, size=4_000_000, took_s=0.01)


class Broken(AssertionError):
    """A promise does not hold."""


class Life(Enum):
    LOADING = "loading"
    UP = "up"
    STOPPING = "stopping"
    DOZING = "dozing"
    ASLEEP = "asleep"
    WAKING = "waking"
    SAVING = "saving"
    RESTORING = "restoring"


@dataclass
class Server:
    model: ModelName
    launch: LaunchId
    spec: ModelSpec
    gpus: tuple[Place, ...] = ()
    """The cards that it was started on."""
    given: dict[Place, Bytes] | None = None
    """What it got if it was started alone."""
    life: Life = Life.LOADING
    was_ready: bool = False
    """A server may become ready although it was told to stop; its end is reported differently then."""
    has_answered: bool = False
    """A request was answered completely, so that the server's end is no failure."""
    idle_since: Instant = NEVER
    is_leaving: bool = False
    """It was seen draining, or told to stop: no more leases."""
    causes: set[Cause] = field(default_factory=set)
    """Why it may be told to stop, apart from its ttl and memory for another model."""
    level: SleepLevel | None = None
    """Its sleep level, from falling asleep to waking up."""
    asleep_since: Instant = NEVER
    sleep_failed: bool = False
    """It could not be woken, so it must be stopped."""
    cut_from: Instant = NEVER
    """From when on its leases may be cut."""
    has_other_rules: bool = False
    """Groups or budgets were changed while it ran, so that it may have to leave for what runs beside it."""
    kept: KeepAliveChanged | None = None
    """The last `keep_alive` of a client."""

    @property
    def is_asleep(self) -> bool:
        """Or told to stop while asleep."""
        return self.life is Life.ASLEEP or (self.life is Life.STOPPING and self.level is not None)

    @property
    def is_sleep_failed(self) -> bool:
        """It failed to fall asleep or to wake, and no further event follows."""
        return self.sleep_failed and self.life in (Life.DOZING, Life.WAKING)

    @property
    def upstream(self) -> Upstream:
        return Upstream(Address(f"{self.model}-{self.launch}.test", 80), pid=self.launch)


@dataclass(frozen=True)
class Wanted:
    model: ModelName
    kind: RequestKind
    client: str = ""


@dataclass(frozen=True)
class Lease:
    server: Server
    kind: RequestKind


class World:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.scheduler = Scheduler(catalog)
        self.now: Instant = 0.0
        self.wake: Instant = NEVER
        self.servers: dict[LaunchId, Server] = {}
        self.waiting: dict[TicketId, Wanted] = {}
        self.unloads: dict[TicketId, Server | None] = {}
        """None: the model was only waited for."""
        self.leases: dict[TicketId, Lease] = {}
        self.read_ahead: dict[ModelName, ModelSpec] = {}
        self.orphans: list[TicketId] = []
        """Leases whose server died, not yet returned."""
        self.past: list[UpstreamExited | UpstreamFailed] = []
        self.saved: set[ModelName] = set()
        """Models whose conversations were saved."""
        self.is_closing = False
        self.is_handing_over = False
        """No server may be started, stopped, put to sleep or woken, unless that is the rest of a step."""
        self.is_sound = True
        """False from an event until it was processed: a broken promise leaves it False."""
        self.history: list[tuple[Instant, Event | Command]] = []
        self._numbers = itertools.count(1)
        self._served_before: dict[tuple[ModelName, str], Counter[str]] = {}
        """How often others were served by a model since a client waits for it, or since it was served itself."""
        self._before_batch: Counter[ModelName] = Counter()
        """How many other requests a model has served in a row since a batch request waits for it."""
        self._launches: set[LaunchId] = set()
        """All that there ever were."""
        self._failures: dict[ModelName, int] = {}
        self._backoff_until: dict[ModelName, Instant] = {}

    # Clients and operators

    def arrive(self, model: ModelName, *, reads: bool = False, client: str = "someone") -> TicketId:
        kind = RequestKind.READ if reads else RequestKind.USE
        ticket = self._ticket(model, kind, client)
        self.tell(RequestArrived(ticket, model, ClientId(client), takes_slot=not reads, is_batch=client in BATCH))
        return ticket

    def load(self, model: ModelName) -> TicketId:
        ticket = self._ticket(model, RequestKind.LOAD)
        self._forgive(model)
        self.tell(LoadRequested(ticket, model, ClientId("operator")))
        return ticket

    def leave(self, ticket: TicketId, *, is_answered: bool = True) -> None:
        """Disconnect while waiting, or finish, or return a lease of a dead server."""
        if gave_up := self.waiting.pop(ticket, None):
            self._left_unserved(gave_up)
        lease = self.leases.pop(ticket, None)
        if lease and not self.leases_on(lease.server):
            lease.server.idle_since = self.now
        if lease and is_answered:
            lease.server.has_answered = True
            self._forgive(lease.server.model)
        if ticket in self.orphans:
            self.orphans.remove(ticket)
        self.tell(RequestLeft(ticket, is_answered))

    def unload(self, model: ModelName, *, force: bool = False) -> None:
        ticket = TicketId(next(self._numbers))
        server = self.server_of(model)
        if server:
            self.unloads[ticket] = server
            server.causes.add(Cause.OPERATOR)
            server.cut_from = min(server.cut_from, self.now + (0 if force else server.spec.drain_timeout_s))
        elif self._waits_for(model):
            self.unloads[ticket] = None
        else:
            self.waiting[ticket] = Wanted(model, RequestKind.LOAD)
        was_ready = server and server.life is Life.UP and not server.is_leaving
        self.tell(UnloadRequested(ticket, model, force))
        if not server:
            is_answered = ticket not in self.waiting and ticket not in self.unloads
            self._require(is_answered, f"unload of {model}, which does not run, got no answer")
        if not (was_ready or self.is_handing_over):
            self._require(not self._waits_for(model), f"{model} was unloaded, and its queue loads it again")

    def keep_alive(self, model: ModelName, seconds: Seconds | None) -> None:
        event = KeepAliveChanged(model, seconds)
        if server := self.server_of(model):
            server.kept = event
        self.tell(event)

    def change(self, catalog: Catalog) -> None:
        self._follow(catalog)
        self.tell(CatalogChanged(catalog))

    def _follow(self, catalog: Catalog) -> None:
        """What a new configuration means for the servers. During a handover none of them is replaced."""
        for server in self.servers.values():
            if _is_outdated(server, catalog):
                if not self.is_handing_over:
                    server.causes.add(Cause.CONFIGURATION)
                elif not (server.causes or _is_outdated(server, self.catalog)):
                    server.spec = self.catalog.models[server.model]
            elif catalog.models[server.model].ttl_s != self._spec(server).ttl_s:
                server.kept = None
        if (catalog.groups, catalog.budgets) != (self.catalog.groups, self.catalog.budgets):
            for server in self.servers.values():
                server.has_other_rules = True
                server.given = server.given if catalog.budgets == self.catalog.budgets else None
        if catalog.budgets != self.catalog.budgets:
            for name in [name for name, end in self._backoff_until.items() if end > self.now]:
                self._forgive(name)
        for name, old in self.catalog.models.items():
            if name not in catalog.models or catalog.models[name].recipe != old.recipe:
                self._forgive(name)
        self.catalog = catalog

    def shut_down(self, *, force: bool) -> None:
        """Ends a handover, too."""
        self._end_handover()
        self.is_closing = True
        for server in self.servers.values():
            server.causes.add(Cause.SHUTDOWN)
            server.cut_from = self.now if force else server.cut_from
        self.tell(ShutdownRequested(force))

    # A restart that unloads nothing

    def request_handover(self) -> None:
        self.is_handing_over = True
        self.tell(HandoverRequested())

    def cancel_handover(self) -> None:
        self._end_handover()
        self.tell(HandoverCancelled())

    def _end_handover(self) -> None:
        self.is_handing_over = False
        self._follow(self.catalog)

    @property
    def steps(self) -> list[Server]:
        """Servers on the way from one state to another."""
        at_rest = (Life.UP, Life.ASLEEP)
        return [server for server in self.servers.values() if server.life not in at_rest]

    def hand_over(self, catalog: Catalog) -> None:
        """The next process takes over with this configuration; the servers notice nothing."""
        self.is_sound = False
        handover = from_json(to_json(self.scheduler.handover(self.now)))
        self._before_batch.clear()
        learned = self.scheduler.model_stats.export()
        self.scheduler, self.wake = Scheduler(catalog), NEVER
        self.scheduler.model_stats.adopt(learned)
        self.read_ahead.clear()
        self._follow(catalog)
        self._count_from_now()
        upstreams = {server.launch: server.upstream for server in self.servers.values()}
        *events, completed = adoption(handover, catalog, upstreams)
        for event in events:
            self._decide(event)
        self._end_handover()
        self.tell(completed)

    def _count_from_now(self) -> None:
        """Times were handed over as ages, which rounds them."""
        for server in self.servers.values():
            server.idle_since = self.now - (self.now - server.idle_since)
            server.asleep_since = self.now - (self.now - server.asleep_since)
            server.cut_from = self.now + (server.cut_from - self.now)
        self._backoff_until = {name: self.now + (end - self.now) for name, end in self._backoff_until.items()}

    def pass_time(self, seconds: Seconds) -> None:
        """Advance the clock; the scheduler's timer fires when due."""
        until = self.now + seconds
        for _ in range(ROUNDS + int(seconds / LOOK_AGAIN_S)):
            if self.wake > until:
                break
            self.now, self.wake = max(self.now, self.wake), NEVER
            self.tell(ClockReached())
        else:
            raise Broken(f"the timer rings without end at {self.now}\n{self.recent_history()}")
        self.now = until
        self._compare(self.scheduler.view_of_all(until))

    # Servers

    def become_ready(self, server: Server) -> None:
        server.was_ready = True
        if server.life is Life.LOADING:
            server.life = Life.UP
            server.idle_since = self.now
        self.tell(UpstreamReady(server.model, server.launch, server.upstream))

    def fall_asleep(self, server: Server) -> None:
        """Or too late: it was told to stop meanwhile."""
        if server.life is Life.DOZING:
            server.life, server.asleep_since = Life.ASLEEP, self.now
        self.tell(UpstreamAsleep(server.model, server.launch))

    def wake_up(self, server: Server) -> None:
        """Or too late: it was told to stop meanwhile."""
        if server.life is Life.WAKING:
            server.life, server.level = Life.UP, None
            server.is_leaving = False
            server.idle_since = self.now
        self.tell(UpstreamAwake(server.model, server.launch))

    def fail_sleep(self, server: Server) -> None:
        """It fails to fall asleep, or to wake."""
        server.sleep_failed = True
        fact = SleepFailed if server.life is Life.DOZING else WakeFailed
        self.tell(fact(server.model, server.launch, "answered with 500"))

    def finish_saving(self, server: Server) -> None:
        """It has saved what it had, or nothing."""
        saved = (SOME_TOKENS,) if server.launch % 3 else ()
        if saved:
            self.saved.add(server.model)
        self.tell(ConversationsSaved(server.model, server.launch, saved))

    def finish_restoring(self, server: Server) -> None:
        """It has restored some conversations, or none."""
        server.life, server.idle_since = Life.UP, self.now
        self.tell(ConversationsRestored(server.model, server.launch, (SOME_TOKENS,) if server.launch % 2 else ()))

    def end(self, server: Server) -> None:
        """The process is gone: a failed start, a crash, during sleep, or as requested."""
        del self.servers[server.launch]
        if server.life in (Life.LOADING, Life.RESTORING, Life.UP):
            self._note_failure(server)
        self._orphan_leases(server)
        if server.was_ready:
            fact: UpstreamExited | UpstreamFailed = UpstreamExited(server.model, server.launch, "is gone")
        else:
            fact = UpstreamFailed(
                server.model, server.launch, LoadFailed(f"{server.model} did not start", may_pass=True)
            )
        self.past.append(fact)
        self.tell(fact)

    def repeat(self, fact: UpstreamExited | UpstreamFailed) -> None:
        """Repeat an event about a process that is long gone."""
        self.tell(fact)

    # The end

    def behave(self) -> None:
        """Let everything load, stop and finish: all requests must be answered within a bounded number of rounds."""
        for _ in range(ROUNDS):
            if not (self.waiting or self.unloads or self.leases or self.orphans):
                return self._check_budgets()
            if not self._one_good_round():
                self._require(self.wake < NEVER, f"{self.waiting} and {self.unloads} wait for ever")
                self.pass_time(max(0.0, self.wake - self.now))
        raise Broken(f"after {ROUNDS} rounds {self.waiting} and {self.unloads} still wait\n{self.recent_history()}")

    def _check_budgets(self) -> None:
        """Nobody uses a model now, so that nothing but pinned models may exceed a budget that was lowered."""
        self.pass_time(1.0)
        held = [server for server in self.servers.values() if server.life in (Life.UP, Life.ASLEEP)]
        exceeded = self.exceeded(held)
        for server in held:
            is_late = not self._spec(server).pinned and exceeded.intersection(self._taken_by(server))
            self._require(not is_late, f"{server.model} stays, and exceeds {exceeded}")

    def _one_good_round(self) -> bool:
        tickets = [*self.leases, *self.orphans]
        at_rest = (Life.UP, Life.ASLEEP)
        servers = [each for each in self.servers.values() if each.life not in at_rest and not each.is_sleep_failed]
        goes_on = {
            Life.LOADING: self.become_ready,
            Life.RESTORING: self.finish_restoring,
            Life.DOZING: self.fall_asleep,
            Life.WAKING: self.wake_up,
            Life.SAVING: self.finish_saving,
        }
        for server in servers:
            goes_on.get(server.life, self.end)(server)
        for ticket in tickets:
            self.leave(ticket)
        return bool(tickets or servers)

    def close(self) -> None:
        """After a shutdown nothing is left."""
        self.behave()
        while self.servers:
            self._require(self._one_good_round(), f"{list(self.servers.values())} outlive hotseat")

    # Commands of the scheduler

    def tell(self, event: Event) -> None:
        self.is_sound = False
        loads = self.awaited_loads()
        commands = self._decide(event)
        view = self.scheduler.view_of_all(self.now)
        self._notice_leaving(view, [load for load in loads if load in self.awaited_loads()])
        if any(isinstance(command, ReadAhead) for command in commands):
            self._require(any(server.is_leaving for server in self.servers.values()), "files are read, nobody leaves")
        self._compare(view)
        self.is_sound = True

    def _decide(self, event: Event) -> list[Command]:
        self.history.append((self.now, event))
        commands = self.scheduler.handle(event, self.now)
        for command in commands:
            self.history.append((self.now, command))
            self._require(not self.is_handing_over or self._may_be_done(command), f"{command} during a handover")
            self._carry_out(command)
        has_other_rules = any(server.has_other_rules for server in self.servers.values())
        invariants.check(self.scheduler._state, has_other_rules=has_other_rules)
        return commands

    def _may_be_done(self, command: Command) -> bool:
        """During a handover no step begins; those in progress end."""
        if isinstance(command, StopUpstream):
            server = self.servers.get(command.launch)
            return server is not None and (server.life is Life.SAVING or server.is_sleep_failed)
        return not isinstance(command, StartUpstream | PutToSleep | WakeUp | SaveConversations | ReadAhead)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Grant():
                self._granted(command)
            case Confirm():
                self._confirmed(command)
            case Refuse(ticket=ticket, error=error):
                refused = self.waiting.pop(ticket, None)
                if refused:
                    self._left_unserved(refused)
                    self._judge_refusal(refused.model, error)
                self._require(refused or self.unloads.pop(ticket, None), f"{ticket} is refused, but does not wait")
            case Cut(ticket=ticket):
                self._cut(ticket)
            case StartUpstream():
                self._started(command)
            case StopUpstream():
                self._stopped(command)
            case PutToSleep():
                self._put_to_sleep(command)
            case WakeUp():
                self._woken(command)
            case SaveConversations():
                self._saving(command)
            case RestoreConversations():
                self._restoring(command)
            case ReadAhead(model=model, spec=spec):
                self._reading_ahead(model, spec)
            case StopReading(model=model):
                self._require(self.read_ahead.pop(model, None), f"{model} is not read ahead, and is told to stop")
            case WakeAt(when=when):
                self._require(when > self.now, f"asked to be woken at {when}, which is not in the future")
                self.wake = when

    def _granted(self, command: Grant) -> None:
        wanted = self.waiting.pop(command.ticket, None)
        self._require(wanted, f"{command.ticket} is granted a lease, but does not wait")
        assert wanted
        server = self.server_of(wanted.model)
        self._require(server and server.life is Life.UP, f"{command.ticket} is sent to {wanted.model}, which is not up")
        assert server
        self._require(not server.is_leaving, f"{command.ticket} is sent to {wanted.model}, which is on its way out")
        self._require(command.upstream == server.upstream, f"{command.ticket} is sent to {command.upstream}")
        self.leases[command.ticket] = Lease(server, wanted.kind)
        self._check_slots(server)
        self._check_fairness(wanted)

    def _check_fairness(self, granted: Wanted) -> None:
        """While a client waits for a model, no other client of its kind is served by it more than PLACES times."""
        if granted.kind is not RequestKind.USE:
            return
        in_line = [
            each for each in self.waiting.values() if each.model == granted.model and each.kind is RequestKind.USE
        ]
        waiting = {each.client for each in in_line}
        for other in {each for each in waiting if (each in BATCH) == (granted.client in BATCH)} - {granted.client}:
            seen = self._served_before.setdefault((granted.model, other), Counter())
            seen[granted.client] += 1
            often = seen[granted.client] > PLACES
            self._require(not often, f"{granted.client} is served {PLACES + 1} times while {other} waits")
        self._served_before.pop((granted.model, granted.client), None)
        self._check_batch(granted, waiting)

    def _left_unserved(self, wanted: Wanted) -> None:
        self._served_before.pop((wanted.model, wanted.client), None)
        if wanted.client in BATCH:
            self._before_batch.pop(wanted.model, None)

    def _check_batch(self, granted: Wanted, waiting: set[str]) -> None:
        """While a batch request waits for a model, it serves at most OTHERS_FIRST others in a row."""
        is_passed = granted.client not in BATCH and not waiting.isdisjoint(BATCH)
        self._before_batch[granted.model] = self._before_batch[granted.model] + 1 if is_passed else 0
        often = self._before_batch[granted.model] > OTHERS_FIRST
        self._require(not often, f"{granted.model} serves {OTHERS_FIRST + 1} others while a batch request waits")

    def _check_slots(self, server: Server) -> None:
        limit = server.spec.concurrency_limit
        used = sum(lease.kind is RequestKind.USE for lease in self.leases_on(server))
        self._require(limit is None or used <= limit, f"{used} requests at once on {server.model}, which takes {limit}")

    def _confirmed(self, command: Confirm) -> None:
        if command.ticket in self.unloads:
            stopped = self.unloads.pop(command.ticket)
            is_gone = stopped is None or stopped.launch not in self.servers
            self._require(is_gone, f"{command.model} is said to be gone, and lives")
            return
        wanted = self.waiting.pop(command.ticket, None)
        self._require(
            wanted and wanted.kind is RequestKind.LOAD, f"{command.ticket} is confirmed, but asked for nothing"
        )
        server = self.server_of(command.model)
        self._require(server and server.life is Life.UP, f"{command.model} is said to be ready, and is not")

    def _judge_refusal(self, model: ModelName, error: HotseatError) -> None:
        if isinstance(error, LoadFailed) and "backing off" in error.message:
            backs_off = self._backoff_until.get(model, 0.0) > self.now
            self._require(backs_off, f"{model} is not tried, though it need not back off: {error}")
        spec = self.catalog.models.get(model)
        if spec is not None and isinstance(error, NeverFits | NoMemory):
            self._judge_lack(spec, error)

    def _judge_lack(self, spec: ModelSpec, error: NeverFits | NoMemory) -> None:
        """Groups may refuse whatever a model needs; for its memory only a declared figure does."""
        if "may not run together" in error.message:
            pinned = [f"together with {each.model}," for each in self._pinned_against(spec)]
            is_true = any(reason in error.message for reason in pinned)
            self._require(is_true, f"{spec.name} is refused, and may run beside all that is pinned: {error}")
        else:
            is_guess = spec.memory is None and spec.estimated
            promise = f"{spec.name} is refused because of a guess, without a start alone that failed: {error}"
            self._require(not is_guess, promise)

    def _pinned_against(self, spec: ModelSpec) -> list[Server]:
        """Pinned servers that stay, and beside which this model may not be loaded."""
        others = [each for each in self.servers.values() if each.model != spec.name and not each.is_leaving]
        return [each for each in others if each.spec.pinned and not self.may_load_beside(spec, each.spec)]

    def _cut(self, ticket: TicketId) -> None:
        lease = self.leases.get(ticket)
        self._require(lease, f"{ticket} is cut, but holds no lease")
        assert lease
        self._require(lease.server.cut_from <= self.now, f"{ticket} is cut too early, or for a swap")

    def _reading_ahead(self, name: ModelName, spec: ModelSpec) -> None:
        self._require(name not in self.read_ahead, f"{name} is read ahead twice")
        self._require(spec == self.catalog.models[name], f"{name} is read ahead with an old recipe")
        self._require(not self.server_of(name), f"{name} is read ahead, and runs")
        self.read_ahead[name] = spec

    def _started(self, command: StartUpstream) -> None:
        name = command.model
        self.read_ahead.pop(name, None)
        self._require(not self.is_closing, f"{name} is started while hotseat shuts down")
        self._require(not self.server_of(name), f"{name} is started twice")
        self._require(command.launch not in self._launches, f"there was a launch {command.launch} before")
        self._launches.add(command.launch)
        self._require(self._waits_for(name), f"{name} is started for nobody")
        self._require(command.spec == self.catalog.models[name], f"{name} is started with an old recipe")
        self._require(self._backoff_until.get(name, 0.0) <= self.now, f"{name} is started before its backoff ends")
        self._check_servers_beside(name, command.spec)
        server = Server(name, command.launch, command.spec, command.gpus)
        beside, guess = self._left_to(name), command.spec.estimated or {}
        exceeds = any(size > beside[place] for place, size in guess.items())
        self._require(command.alone == exceeds, f"{name} is started alone, or beside others, without need")
        server.given = {place: beside[place] for place in guess} if exceeds else None
        choice = command.spec.gpus
        self._require(choice is None or set(command.gpus) <= set(choice.among), f"{name} gets cards it may not have")
        self._require(bool(choice) == bool(command.gpus), f"{name} is started on {command.gpus}")
        self.servers[command.launch] = server
        lacking = self.exceeded(self.servers.values()).intersection(self._memory(server))
        self._require(not lacking, f"{name} is started without free memory on {lacking}")

    def _left_to(self, name: ModelName) -> dict[Place, Bytes]:
        """What pinned models leave."""
        left = dict(self.catalog.budgets)
        for server in self.servers.values():
            if server.spec.pinned and server.model != name and not server.is_leaving:
                for place, size in self._taken_by(server).items():
                    left[place] -= size
        return left

    def _check_servers_beside(self, name: ModelName, spec: ModelSpec) -> None:
        """A server that sleeps still uses what only one process can."""
        for other in self.servers.values():
            if other.model != name and (not other.is_asleep or self._use_the_same(spec, other.spec)):
                self._require(self.may_load_beside(spec, other.spec), f"{name} is started beside {other.model}")

    def _use_the_same(self, one: ModelSpec, other: ModelSpec) -> bool:
        return any({one.name, other.name} <= {*models} for models in self.catalog.groups.exclusive.values())

    def _put_to_sleep(self, command: PutToSleep) -> None:
        server = self.servers.get(command.launch)
        self._require(server and server.life is Life.UP, f"{command.model} is put to sleep, but is not up")
        assert server
        self._require(not self.leases_on(server), f"{server.model} is put to sleep under {self.leases_on(server)}")
        self._require(not server.causes, f"{server.model} is put to sleep, but should go: {server.causes}")
        before = self.exceeded(self.servers.values())
        server.life, server.level = Life.DOZING, command.level
        lacking = self.exceeded(self.servers.values()) - before
        self._require(not lacking, f"{server.model} falls asleep without free memory")

    def _woken(self, command: WakeUp) -> None:
        server = self.servers.get(command.launch)
        self._require(server and server.life is Life.ASLEEP, f"{command.model} is woken, but does not sleep")
        assert server
        self._require(command.level == server.level, f"{server.model} slept otherwise: {server.level}")
        self._require(self._waits_for(server.model), f"{server.model} is woken for nobody")
        self._check_servers_beside(server.model, server.spec)
        server.life = Life.WAKING
        lacking = self.exceeded(self.servers.values()).intersection(self._memory(server))
        self._require(not lacking, f"{server.model} is woken without free memory on {lacking}")

    def _saving(self, command: SaveConversations) -> None:
        server = self.servers.get(command.launch)
        self._require(server and server.life is Life.UP, f"{command.model} is told to save, but is not up")
        assert server
        self._require(not self.leases_on(server), f"{server.model} is told to save under {self.leases_on(server)}")
        self._require(server.spec.keeps_conversations, f"{server.model} is told to save, but has no conversations")
        is_pointless = Cause.SHUTDOWN in server.causes or _is_outdated(server, self.catalog)
        self._require(not is_pointless, f"{server.model} is told to save, but should go: {server.causes}")
        server.life = Life.SAVING

    def _restoring(self, command: RestoreConversations) -> None:
        server = self.servers.get(command.launch)
        self._require(server and server.life is Life.UP, f"{command.model} is told to restore, but is not up")
        assert server
        self._require(server.model in self.saved, f"{server.model} is told to restore what was never saved")
        server.life, server.idle_since = Life.RESTORING, NEVER

    def _stopped(self, command: StopUpstream) -> None:
        server = self.servers.get(command.launch)
        self._require(server and server.life is not Life.STOPPING, f"{command.model} is stopped, but does not run")
        assert server
        self._require(not self.leases_on(server), f"{server.model} is stopped under {self.leases_on(server)}")
        ours = command.cause in (Cause.EVICTION, Cause.TTL) or (
            command.cause is Cause.WAKE_FAILED and server.sleep_failed
        )
        by_rules = server.has_other_rules and command.cause in (Cause.CONFIGURATION, Cause.EXCEEDS_MEMORY)
        self._require(
            ours or by_rules or command.cause in server.causes,
            f"{server.model} is stopped by {command.cause}: by whom?",
        )
        if server.life is not Life.ASLEEP:
            server.level = None
        server.life = Life.STOPPING

    # Why servers stop

    def _notice_leaving(self, view: View, loads_under_way: list[Server]) -> None:
        leaving = {model.name for model in view.models if model.phase in (Phase.DRAINING, Phase.UNLOADING)}
        for server in self.servers.values():
            if server.is_leaving or server.model not in leaving:
                continue
            if server.life in (Life.ASLEEP, Life.WAKING) or server.sleep_failed:  # judged when it fell asleep
                continue
            server.is_leaving = True
            self._require(not self.is_handing_over, f"{server.model} is told to leave during a handover")
            if not (server.causes or server.has_other_rules or self._is_expired(server)):
                self._judge_eviction(server, loads_under_way)

    def _judge_eviction(self, server: Server, loads_under_way: list[Server]) -> None:
        others = {wanted.model for wanted in self.waiting.values()} - {server.model}
        self._require(others, f"{server.model} leaves for nobody")
        self._require(not server.spec.pinned, f"{server.model} is pinned, and leaves")
        self._require(not loads_under_way, f"{server.model} leaves while {loads_under_way} are loading")

    def _is_expired(self, server: Server) -> bool:
        ttl = self._spec(server).ttl_s if server.kept is None else server.kept.seconds
        unused = not self.leases_on(server) and not self._waits_for(server.model)
        return ttl is not None and unused and not self._spec(server).pinned and self.now >= server.idle_since + ttl

    def _overslept(self, server: Server) -> bool:
        sleep = self._spec(server).sleep
        if server.life is not Life.ASLEEP or self._waits_for(server.model) or self._spec(server).pinned:
            return False
        if server.kept is not None and server.kept.seconds == 0:
            return True
        return sleep is not None and sleep.ttl_s is not None and self.now >= server.asleep_since + sleep.ttl_s

    # The scheduler's view

    def _compare(self, view: View) -> None:
        for model in view.models:
            server = self.server_of(model.name)
            self._require(_agree(model.phase, server), f"{model.name} is shown {model.phase}, and is {server}")
            in_flight = len(self.leases_on(server)) if server else 0
            self._require(model.in_flight == in_flight, f"{model.in_flight} in flight are shown, {in_flight} are")
            failures = self._failures.get(model.name, 0)
            self._require(model.failures == failures, f"{model.name} is said to have failed {model.failures} times")
        shown = {ticket.ticket for ticket in view.queue}
        self._require(shown == set(self.waiting), f"{shown} are shown to wait, {self.waiting} do")
        unwanted = [name for name in self.read_ahead if not self._waits_for(name)]
        self._require(not unwanted, f"{unwanted} are read ahead for nobody")
        may_hand_over = self.is_handing_over and not self.steps
        self._require(self.scheduler.may_hand_over() == may_hand_over, f"{self.steps} are in progress, or none")
        if not self.is_handing_over:
            self._look_for_latecomers()

    def _look_for_latecomers(self) -> None:
        up = [server for server in self.servers.values() if server.life is Life.UP and not server.is_leaving]
        staying = [server.model for server in up if server.causes]
        self._require(not staying, f"{staying} should go, and stay")
        late = [server.model for server in self.servers.values() if not server.is_leaving and self._is_expired(server)]
        self._require(not late, f"the ttl of {late} is over")
        awake = [server for server in self.servers.values() if not (server.is_leaving or server.is_asleep)]
        awake = [server for server in awake if server.life is not Life.STOPPING]
        for one, other in itertools.combinations(awake, 2):
            ours, its = self._spec(one), self._spec(other)
            may_stay = (
                self.may_load_beside(ours, its) or self.may_load_beside(its, ours) or (ours.pinned and its.pinned)
            )
            self._require(may_stay, f"{one.model} runs beside {other.model}, in whatever order they were loaded")
        late = [server.model for server in self.servers.values() if self._overslept(server)]
        self._require(not late, f"{late} sleep too long")

    # Expected figures

    def server_of(self, model: ModelName) -> Server | None:
        return next((server for server in self.servers.values() if server.model == model), None)

    def leases_on(self, server: Server) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.server is server]

    def awaited_loads(self) -> list[Server]:
        underway = (Life.LOADING, Life.RESTORING, Life.WAKING)
        loading = [server for server in self.servers.values() if server.life in underway]
        return [server for server in loading if self._waits_for(server.model)]

    def may_load_beside(self, newcomer: ModelSpec, resident: ModelSpec) -> bool:
        if self._use_the_same(newcomer, resident):
            return False
        ours, its = self.catalog.groups.of(newcomer.name), self.catalog.groups.of(resident.name)
        if ours.name == its.name:
            return not ours.swap
        return its.persistent or not ours.exclusive

    def exceeded(self, servers: Iterable[Server]) -> set[Place]:
        """The places of which these servers take more than the budget."""
        budgets = dict(self.catalog.budgets)
        for server in servers:
            for place, size in self._taken_by(server).items():
                budgets[place] = budgets.get(place, 0) - size
        return {place for place, left in budgets.items() if left < 0}

    def _taken_by(self, server: Server) -> dict[Place, Bytes]:
        """Its memory if awake, what it keeps if asleep, in between the larger of both."""
        awake = self._memory(server)
        if server.level is None or not self.catalog.budgets:
            return awake
        kept = dict(server.level.memory or {})
        if server.level.memory is None and server.level.keeps_weights and HOST_MEMORY in self.catalog.budgets:
            kept = {HOST_MEMORY: sum(awake.values())}
        if server.is_asleep:
            return kept
        return {place: max(awake.get(place, 0), kept.get(place, 0)) for place in {**awake, **kept}}

    def _memory(self, server: Server) -> dict[Place, Bytes]:
        """A model without figures takes a whole device; on cards of equal size a model is split evenly."""
        budgets, memory = self.catalog.budgets, server.spec.memory
        if not budgets:
            return {}
        if memory is None and server.spec.estimated:
            return server.given or dict(server.spec.estimated)
        if memory is None:
            return {place: budgets[place] for place in server.gpus or list(budgets)[:1]}
        split = {card: -(-memory.get(ANY_GPU, 0) // len(server.gpus)) for card in server.gpus}
        return {**split, **{place: size for place, size in memory.items() if place != ANY_GPU}}

    def _spec(self, server: Server) -> ModelSpec:
        """The spec that applies to a server: time limits follow the catalog while it runs."""
        is_as_started = server.causes or _is_outdated(server, self.catalog)
        return server.spec if is_as_started else self.catalog.models[server.model]

    def _waits_for(self, model: ModelName) -> bool:
        return any(wanted.model == model for wanted in self.waiting.values())

    def _note_failure(self, server: Server) -> None:
        if server.has_answered or server.model not in self.catalog.models:
            return  # it works; or it was removed and is forgotten
        failures = self._failures[server.model] = self._failures.get(server.model, 0) + 1
        backoff_s = 0.0 if failures < 2 else min(60.0, 2.0 ** (failures - 1))
        if server.given and not server.was_ready:
            backoff_s = TRY_ALONE_AGAIN_S
        self._backoff_until[server.model] = self.now + backoff_s

    def _forgive(self, model: ModelName) -> None:
        self._failures.pop(model, None)
        self._backoff_until.pop(model, None)

    def _orphan_leases(self, server: Server) -> None:
        gone = [ticket for ticket, lease in self.leases.items() if lease.server is server]
        for ticket in gone:
            del self.leases[ticket]
        self.orphans += gone

    def _ticket(self, model: ModelName, kind: RequestKind, client: str = "operator") -> TicketId:
        ticket = TicketId(next(self._numbers))
        self.waiting[ticket] = Wanted(model, kind, client)
        return ticket

    def _require(self, so: object, promise: str) -> None:
        if not so:
            self.is_sound = False
            raise Broken(f"{promise}\n{self.recent_history()}")

    def recent_history(self) -> str:
        return "\n".join(f"{when:8.2f}  {what}" for when, what in self.history[-60:])


def _is_outdated(server: Server, catalog: Catalog) -> bool:
    new = catalog.models.get(server.model)
    return new is None or (new.recipe, new.memory) != (server.spec.recipe, server.spec.memory)


def _agree(phase: Phase, server: Server | None) -> bool:
    if server is None:
        return phase in (Phase.COLD, Phase.BACKOFF)
    match server.life:
        case Life.LOADING | Life.RESTORING:
            return phase is Phase.LOADING
        case Life.UP:
            return phase in (Phase.READY, Phase.DRAINING)
        case Life.STOPPING | Life.DOZING | Life.SAVING:
            return phase is Phase.UNLOADING
        case Life.ASLEEP:
            return phase is Phase.ASLEEP
        case Life.WAKING:
            return phase is Phase.LOADING
