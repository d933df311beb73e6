"""Restarts of this process: it starts the newly installed program, hands everything over to it, and ends.

Until the guard says that the new process has taken the servers, every failure leaves this process as it was. Afterwards
this one ends with the new one: the guard obeys it no more. The new one
decides about its requests meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from hotseat.errors import RestartFailed, RestartInProgress, ShuttingDown
from hotseat.handover.channel import AboutRequests, FromOperators, event_facts
from hotseat.handover.successor import Successor, started
from hotseat.scheduling.commands import Confirm, Refuse
from hotseat.scheduling.events import (
    FleetModelsChanged,
    HandoverCancelled,
    HandoverRequested,
    LoadRequested,
    RequestArrived,
    RequestLeft,
    UnloadRequested,
)
from hotseat.scheduling.scheduler import Scheduler
from hotseat.scheduling.transitions import Transitions
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.dispatch.journal import Journal
    from hotseat.errors import HotseatError
    from hotseat.handover.channel import Channel, ToRequests
    from hotseat.handover.successor import Listening
    from hotseat.identifiers import ClientId, Instant, ModelName, Seconds, TicketId, Upstream
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event
    from hotseat.scheduling.state import State

log = logging.getLogger(__name__)

STOPPING = "hotseat is stopping"


class TimeLimits(Struct, frozen=True):
    start_s: Seconds = 60.0
    """For the new process to import the program, to read its configuration and to open its parts."""
    settle_s: Seconds = 600.0
    """For loads and unloads in progress to end. Models that are ready serve meanwhile."""
    take_s: Seconds = 5.0
    """For the new process to take the servers once it was told what runs. New leases wait meanwhile."""
    listen_s: Seconds = 30.0
    """For the new process to adopt the servers and to accept connections. It is killed then: requests wait for it."""


DEFAULT = TimeLimits()


class Description(NamedTuple):
    """What the new process must know besides what it reads from files and what the guard tells it."""

    facts: Mapping[str, Any]
    fds: Sequence[int] = ()
    """Descriptors of this process; the new one gets copies."""


class Servers(Protocol):
    """The model servers, as the guard lets them change hands."""

    def offer(self) -> socket.socket:
        """The connection on which the new process may take them."""

    async def were_taken(self) -> None:
        """Return when it has."""

    async def withdraw(self) -> bool:
        """Take the offer back; False: the servers were taken."""


class Restarts:
    def __init__(
        self,
        dispatcher: Dispatcher,
        scheduler: Scheduler,
        journal: Journal,
        servers: Servers,
        listening: Listening,
        description: Callable[[], Description],
        environ: Mapping[str, str],
        leave: Callable[[int], Awaitable[None]],
        reloads: Callable[[], int],
        time_limits: TimeLimits = DEFAULT,
    ) -> None:
        """`leave` gets the pid of the new process when that has the servers, and gives up what only one process can
        have. `reloads` is how often the configuration was reloaded."""
        self._dispatcher, self._scheduler, self._servers = dispatcher, scheduler, servers
        self._listening, self._description, self._environ = listening, description, environ
        self._leave, self._reloads, self._time_limits = leave, reloads, time_limits
        self._reloads_known = 0
        """Those that the new process knows of."""
        self._tasks = Tasks()
        self._has_changed = asyncio.Event()
        journal.listen(lambda _: self._has_changed.set())
        self._attempt: asyncio.Task[int | None] | None = None
        self._is_stopping = False
        self._is_replaced = asyncio.Event()
        self.attempts = 0
        self.problem = ""
        """Why the last attempt failed."""
        self.management = ""
        """The private socket of the new process's management API."""
        self.successor: Successor | None = None
        """The process that has taken over."""
        self.is_handed_over = asyncio.Event()
        self.predecessor_has_ended = asyncio.Event()
        """An earlier process may still serve clients, about whom this one is asked."""
        self._remote: RemoteScheduler | None = None

    @property
    def is_in_progress(self) -> bool:
        return self._attempt is not None and not self._attempt.done()

    @property
    def serving_pid(self) -> int:
        """The process that accepts connections."""
        is_listening = self.successor is not None and self.successor.is_listening.done()
        return self.successor.pid if self.successor and is_listening else os.getpid()

    @property
    def has_new_reload(self) -> bool:
        """Was the configuration reloaded since the new process has read it, or was told to read it again?"""
        return self._reloads() != self._reloads_known

    async def restart(self) -> int:
        """The pid of the new process, which serves from now on; RestartFailed: this one still does."""
        if self.is_in_progress or self.successor is not None:
            raise RestartInProgress("a restart is already in progress")
        if self._is_stopping:
            raise RestartFailed(STOPPING)
        self.problem, self.attempts = "", self.attempts + 1
        log.info("restarting")
        # A task of its own: whoever asked may leave meanwhile, and only `give_up` ends it.
        self._attempt = self._tasks.start(self._try(), "restart")
        pid = await asyncio.shield(self._attempt)
        if pid is None:
            raise RestartFailed(self.problem)
        return pid

    async def give_up(self) -> None:
        """This process is to stop: end an attempt in progress, unless a new process has the servers already."""
        self._is_stopping = True
        if self._attempt and self.successor is None:
            self._attempt.cancel()
            replaced = self._tasks.start(self._is_replaced.wait(), "wait until the servers are taken after all")
            await asyncio.wait([self._attempt, replaced], return_when=asyncio.FIRST_COMPLETED)
            replaced.cancel()

    async def try_to_restart(self) -> None:
        """For a signal: nobody awaits the answer, which is in the log."""
        with suppress(RestartFailed, RestartInProgress):
            await self.restart()

    async def _try(self) -> int | None:
        """The pid of the new process; None: `problem` says why there is none."""
        try:
            return await self._restart()
        except RestartFailed as failed:
            self.problem = failed.message
        except asyncio.CancelledError:
            self.problem = STOPPING
        except Exception as problem:
            log.exception("internal error action=restart")
            self.problem = f"{type(problem).__name__}: {problem}"
        if self.successor is None:
            log.error("the restart failed and this process continues reason=%r", self.problem)
        else:
            log.error("the restart failed and hotseat ends reason=%r", self.problem)
        return None

    async def _restart(self) -> int:
        self._reloads_known = self._reloads()
        successor = Successor(*await started(self._environ), self._listening, self._carry_out)
        try:
            self.management = await successor.ready(self._time_limits.start_s)
            await self._settled(successor)
            await self._hand_over(successor)
        except BaseException:
            await until_done(self._tasks.start(successor.end(), "end the new process"))
            self._go_on()
            raise
        await self._follow(successor)
        return successor.pid

    async def _settled(self, successor: Successor) -> None:
        """Begin no load or unload, and wait for those in progress."""
        successor.failure.add_done_callback(lambda _: self._has_changed.set())
        self._dispatcher.tell(HandoverRequested())
        within = self._time_limits.settle_s
        try:
            async with asyncio.timeout(within):
                while not (successor.reason or self._scheduler.may_hand_over()):
                    self._has_changed.clear()
                    await self._has_changed.wait()
        except TimeoutError:
            raise RestartFailed(f"a model was still loading or unloading after {within:g} s") from None
        if successor.reason:
            raise RestartFailed(successor.reason)

    async def _hand_over(self, successor: Successor) -> None:
        """Return when the new process has taken the servers."""
        self._dispatcher.pause()
        self._remote = RemoteScheduler(self._scheduler, successor.channel)
        description = self._description()
        facts = {**description.facts, "must_reload": self.has_new_reload}
        self._reloads_known = self._reloads()
        with self._servers.offer() as connection:
            successor.channel.send("state", connection.fileno(), *description.fds, **facts)
        if not await self._were_taken(successor):
            late = f"the new process did not take over within {self._time_limits.take_s:g} s"
            raise RestartFailed(STOPPING if self._is_stopping else successor.reason or late)

    async def _were_taken(self, successor: Successor) -> bool:
        """The guard's answer. `give_up` cannot interrupt this: it must not kill a process that has the servers."""
        taken = self._tasks.start(self._servers.were_taken(), "wait until the servers are taken")
        with suppress(asyncio.CancelledError):
            within = self._time_limits.take_s
            await asyncio.wait([taken, successor.failure], timeout=within, return_when=asyncio.FIRST_COMPLETED)
        taken.cancel()
        withdrawal = self._tasks.start(self._servers.withdraw(), "withdraw the offer of the servers")
        await until_done(withdrawal)
        return not withdrawal.result()

    def _carry_out(self, command: ToRequests) -> None:
        assert self._remote is not None
        self._remote.note(command)
        self._dispatcher.carry_out(command)

    def _go_on(self) -> None:
        self._dispatcher.resume()
        self._dispatcher.tell(HandoverCancelled())

    async def _follow(self, successor: Successor) -> None:
        """From now on the new process decides about the requests of this one. Return when it listens."""
        assert self._remote is not None
        self._dispatcher.follow(self._remote)
        self._tasks.start(self._end_with(successor, self._remote), "wait for the end of the new process")
        self.successor = successor
        self._is_replaced.set()
        await self._leave(successor.pid)
        successor.channel.send("left")
        try:
            await successor.listening(self._time_limits.listen_s)
            log.info("the new process has taken over pid=%d", successor.pid)
        finally:
            self.is_handed_over.set()

    async def _end_with(self, successor: Successor, scheduler: RemoteScheduler) -> None:
        """If the new process ends, nobody grants the requests that still wait here."""
        await successor.failure
        for command in scheduler.refuse_all(ShuttingDown("hotseat has ended. Try again in a moment.", retry_after=5)):
            self._dispatcher.carry_out(command)


async def until_done(task: asyncio.Task[Any]) -> None:
    """Wait for it, also if the waiting task is cancelled meanwhile."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


class RemoteScheduler(Scheduler):
    """Decides nothing: it sends what concerns requests to the new process, whose commands arrive later.

    Questions are answered as of the handover, but for requests of this process, and what operators and other hosts
    change here.
    """

    def __init__(self, scheduler: Scheduler, channel: Channel) -> None:
        self._state = scheduler._state
        self._channel = channel
        self._waiting = {**self._state.queue.model_of, **dict(unload_tickets(self._state))}
        self._refusal: HotseatError | None = None

    def handle(self, event: Event, now: Instant) -> list[Command]:
        if isinstance(event, RequestArrived | LoadRequested | UnloadRequested):
            if self._refusal:
                return [Refuse(event.ticket, self._refusal, "the new process has ended")]
            self._waiting[event.ticket] = event.model
        elif isinstance(event, RequestLeft):
            self._waiting.pop(event.ticket, None)
        elif isinstance(event, FromOperators | FleetModelsChanged):
            self._note(Transitions(self._state, now), event)
        # The new process looks for programs with precedence itself.
        if isinstance(event, AboutRequests) and not getattr(event, "for_program", False):
            self._channel.send(type(event).__name__, **event_facts(event))
        return []

    def note(self, command: ToRequests) -> None:
        """The new process has decided about a request. After a refusal or a confirmation nobody here gives it back."""
        self._waiting.pop(command.ticket, None)
        if isinstance(command, Refuse | Confirm):
            self._channel.send(RequestLeft.__name__, **event_facts(RequestLeft(command.ticket)))

    def refuse_all(self, error: HotseatError) -> list[Command]:
        """The new process has ended."""
        self._refusal = error
        return [Refuse(ticket, error, "the new process has ended") for ticket in self._waiting]

    def waits_for(self, ticket: TicketId) -> ModelName | None:
        return self._waiting.get(ticket)

    def ready_server(self, model: ModelName) -> Upstream | None:
        """Without a lease nobody knows here whether it still runs: its port may be that of another model."""
        return None

    def lease_at_once(
        self, ticket: TicketId, name: ModelName, client: ClientId, takes_slot: bool, now: Instant
    ) -> Upstream | None:
        return None

    def leave_quietly(self, ticket: TicketId, is_answered: bool, now: Instant) -> list[Command] | None:
        return None

    def wants_prompt(self, ticket: TicketId, tokens: int) -> bool:
        return True


def unload_tickets(state: State) -> Iterator[tuple[TicketId, ModelName]]:
    """Of operators who wait for an unload, begun or postponed."""
    for model in state.active.values():
        yield from ((ticket, model.name) for ticket in model.unload_tickets)
    for event in state.postponed:
        yield event.ticket, event.model
