"""Carries out the commands about servers, one task each; the outcome is the next event.

An exception also becomes an event. A start that raises has failed, a watch that raises is an exit, and in both cases
the rest of the server is stopped first; a stop that raises is retried as long as the server lives. The sleep, wake-up,
save or restore that raises has failed.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, assert_never

from hotseat.errors import LoadFailed
from hotseat.scheduling.commands import (
    Cause,
    PutToSleep,
    ReadAhead,
    RestoreConversations,
    SaveConversations,
    StartUpstream,
    StopReading,
    StopUpstream,
    WakeUp,
)
from hotseat.scheduling.events import (
    ConversationsRestored,
    ConversationsSaved,
    ShutdownRequested,
    SleepFailed,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    WakeFailed,
)
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds
    from hotseat.scheduling.commands import ServerCommand
    from hotseat.scheduling.events import Event, ServerAdopted, SlotsLearned, Transfer, UpstreamAsleep, UpstreamAwake

log = logging.getLogger(__name__)

PAUSE_S: Seconds = 0.02
"""Minimum time between a server's last request and its stop: a llama-server that sees both at once may hang until it is
killed."""
STOP_AGAIN_S: Seconds = 1.0
STUCK_S: Seconds = 5.0
"""Added to `unload_timeout_s`: a server that still exists after that will not end by waiting."""
TRANSFERRED = "conversations %s model=%s count=%d tokens=%d size_mb=%.1f took_s=%.2f"
C = TypeVar("C", bound="PutToSleep | WakeUp | SaveConversations | RestoreConversations")
T = TypeVar("T")


class Launcher(Protocol):
    """Starts and stops servers. Each coroutine returns the next event."""

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed: ...
    async def watch(self, ready: UpstreamReady) -> UpstreamExited: ...

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None: ...

    async def stop(self, command: StopUpstream) -> None:
        """Return when none of its processes is left. Safe to call twice, and for an unknown launch."""

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        """None: it was told to stop meanwhile, or it exited, which `watch` reports."""

    async def read_ahead(self, command: ReadAhead) -> None:
        """Return when all is read or the model starts; may be cancelled."""


class ServerTasks:
    def __init__(
        self,
        launcher: Launcher,
        tell: Callable[[Event], None],
        clock: Callable[[], Instant],
        last_left_at: Callable[[ModelName], Instant],
    ) -> None:
        self._launcher, self._tell, self._clock, self._last_left_at = launcher, tell, clock, last_left_at
        self._running: dict[LaunchId, asyncio.Task[None]] = {}
        """From the start of a server until its end is reported."""
        self._read_ahead_of: dict[ModelName, asyncio.Task[None]] = {}
        """The last read-ahead per model; may be finished."""
        self._tasks = Tasks()
        self._ready = ReadyServerTasks(launcher, tell, clock, self._pause_after_requests, self._tasks)

    # Commands

    def carry_out(self, command: ServerCommand) -> None:
        match command:
            case StartUpstream():
                self.start(command)
            case StopUpstream():
                self.stop(command)
            case PutToSleep():
                self._ready.put_to_sleep(command)
            case WakeUp():
                self._ready.wake_up(command)
            case SaveConversations():
                self._ready.save_conversations(command)
            case RestoreConversations():
                self._ready.restore_conversations(command)
            case ReadAhead():
                self.read_ahead(command)
            case StopReading(model=model):
                self.stop_reading(model)
            case _:
                assert_never(command)

    def start(self, command: StartUpstream) -> None:
        gpus = f" gpus={','.join(place.device for place in command.gpus)}" if command.gpus else ""
        log.info("starting model server model=%s reason=%r%s", command.model, command.reason, gpus)
        self._running[command.launch] = self._tasks.start(self._run(command), f"run {command.model}")

    def adopt(self, adopted: ServerAdopted) -> None:
        """A server that an earlier process has started is ours."""
        self._tell(adopted)
        ready = UpstreamReady(adopted.model, adopted.launch, adopted.upstream)
        log.info("model server adopted model=%s pid=%s", ready.model, ready.upstream.pid)
        self._running[ready.launch] = self._tasks.start(self._watch(ready), f"watch {ready.model}")

    def stop(self, command: StopUpstream) -> None:
        log.info("stopping model server model=%s reason=%r", command.model, command.reason)
        self._tasks.start(self._stop(command), f"stop {command.model}")

    def read_ahead(self, command: ReadAhead) -> None:
        reading = self._tasks.start(self._launcher.read_ahead(command), f"read ahead {command.model}")
        self._read_ahead_of[command.model] = reading

    def stop_reading(self, model: ModelName) -> None:
        if reading := self._read_ahead_of.pop(model, None):
            reading.cancel()

    async def shut_down(self, within: Seconds, unload_timeout_s: Seconds) -> None:
        """Let leases finish for `within` seconds, then cut; return when no server is left, or some are stuck."""
        self._tell(ShutdownRequested())
        if not await self._ended_within(within):
            self._tell(ShutdownRequested(force=True))
            if not await self._ended_within(unload_timeout_s + STUCK_S):
                log.error("model servers did not exit and are left to the guard")

    async def _ended_within(self, seconds: Seconds) -> bool:
        """Wait until no server runs; False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self._running:
                    await asyncio.wait(self._running.values())
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        await self._tasks.aclose()

    # From start to exit

    async def _run(self, command: StartUpstream) -> None:
        try:
            started = await self._started(command)
            self._tell(started)
            if isinstance(started, UpstreamReady):
                self._tasks.start(self._learn_slots(started), f"ask {command.model}")
                self._tell(await self._exited(started))
        finally:
            del self._running[command.launch]

    async def _watch(self, ready: UpstreamReady) -> None:
        try:
            self._tell(await self._exited(ready))
        finally:
            del self._running[ready.launch]

    async def _started(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        began = self._clock()
        try:
            started = await self._launcher.start(command)
        except Exception as problem:
            log.exception("internal error action=start model=%s", command.model)
            started = UpstreamFailed(command.model, command.launch, start_raised(command.model, problem))
            await self._end(command.model, command.launch)
        took = self._clock() - began
        if isinstance(started, UpstreamReady):
            log.info("model server ready model=%s took_s=%.2f pid=%s", command.model, took, started.upstream.pid)
        return started

    async def _exited(self, ready: UpstreamReady) -> UpstreamExited:
        try:
            exited = await self._launcher.watch(ready)
        except Exception as problem:
            log.exception("internal error action=watch model=%s", ready.model)
            await self._end(ready.model, ready.launch)
            exited = UpstreamExited(ready.model, ready.launch, f"was stopped after an internal error: {named(problem)}")
        log.info("model server exited model=%s exit_status=%r", ready.model, exited.exit_status)
        return exited

    async def _learn_slots(self, ready: UpstreamReady) -> None:
        """Runs beside the first requests: a server need not report its slots."""
        if learned := await self._launcher.ask_slots(ready):
            self._tell(learned)

    # Stop

    async def _stop(self, command: StopUpstream) -> None:
        await self._pause_after_requests(command.model)
        while command.launch in self._running:
            try:
                return await self._launcher.stop(command)
            except Exception:
                log.exception("internal error action=stop model=%s retry_in_s=%g", command.model, STOP_AGAIN_S)
                await asyncio.sleep(STOP_AGAIN_S)
        return None

    async def _end(self, model: ModelName, launch: LaunchId) -> None:
        """After a bug: none of its processes may be left when its end is reported."""
        # No journal entry shows the reason of this command.
        await self._stop(StopUpstream(model, launch, Cause.OPERATOR, "internal error"))

    async def _pause_after_requests(self, model: ModelName) -> None:
        if (left_s := self._last_left_at(model) + PAUSE_S - self._clock()) > 0:
            await asyncio.sleep(left_s)


def start_raised(model: ModelName, problem: Exception) -> LoadFailed:
    text = f"{model} is not ready: internal error ({named(problem)}). See the log of hotseat for details."
    return LoadFailed(text, may_pass=True)


class ReadyServerTasks:
    """The commands about servers that are up: sleep, wake-up and conversations."""

    def __init__(
        self,
        launcher: Launcher,
        tell: Callable[[Event], None],
        clock: Callable[[], Instant],
        pause_after_requests: Callable[[ModelName], Awaitable[None]],
        tasks: Tasks,
    ) -> None:
        """`pause_after_requests` waits until the last request of a model is long enough ago."""
        self._launcher, self._tell, self._clock = launcher, tell, clock
        self._pause_after_requests, self._tasks = pause_after_requests, tasks

    def put_to_sleep(self, command: PutToSleep) -> None:
        level, reason = command.level.name, command.reason
        log.info("putting model server to sleep model=%s level=%s reason=%r", command.model, level, reason)
        self._tasks.start(self._put_to_sleep(command), f"put {command.model} to sleep")

    def wake_up(self, command: WakeUp) -> None:
        log.info("waking model server model=%s level=%s reason=%r", command.model, command.level.name, command.reason)
        self._tasks.start(self._wake_up(command), f"wake {command.model}")

    def save_conversations(self, command: SaveConversations) -> None:
        self._tasks.start(self._save_conversations(command), f"save conversations of {command.model}")

    def restore_conversations(self, command: RestoreConversations) -> None:
        self._tasks.start(self._restore_conversations(command), f"restore conversations of {command.model}")

    async def _put_to_sleep(self, command: PutToSleep) -> None:
        await self._pause_after_requests(command.model)
        began, failed = self._clock(), partial(SleepFailed, command.model, command.launch)
        outcome = await attempted("sleep", self._launcher.put_to_sleep, command, failed)
        if isinstance(outcome, SleepFailed):
            log.warning("model server failed to sleep and is stopped model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("model server asleep model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self._tell(outcome)

    async def _wake_up(self, command: WakeUp) -> None:
        began, failed = self._clock(), partial(WakeFailed, command.model, command.launch)
        outcome = await attempted("wake", self._launcher.wake_up, command, failed)
        if isinstance(outcome, WakeFailed):
            log.warning("model server failed to wake and is restarted model=%s error=%r", command.model, outcome.error)
        elif outcome:
            log.info("model server awake model=%s took_s=%.2f", command.model, self._clock() - began)
        if outcome:
            self._tell(outcome)

    async def _save_conversations(self, command: SaveConversations) -> None:
        await self._pause_after_requests(command.model)
        failed = partial(ConversationsSaved, command.model, command.launch, ())
        if outcome := await attempted("save", self._launcher.save_conversations, command, failed):
            log_transfers("saved", outcome.model, outcome.saved, outcome.problem)
            self._tell(outcome)

    async def _restore_conversations(self, command: RestoreConversations) -> None:
        failed = partial(ConversationsRestored, command.model, command.launch, ())
        if outcome := await attempted("restore", self._launcher.restore_conversations, command, failed):
            log_transfers("restored", outcome.model, outcome.restored, outcome.problem)
            self._tell(outcome)


async def attempted(action: str, do: Callable[[C], Awaitable[T]], command: C, failed: Callable[[str], T]) -> T:
    try:
        return await do(command)
    except Exception as problem:
        log.exception("internal error action=%s model=%s", action, command.model)
        return failed(named(problem))


def log_transfers(done: str, model: ModelName, transfers: Sequence[Transfer], problem: str) -> None:
    if not (transfers or problem):
        return
    tokens, size_mb = sum(each.tokens for each in transfers), sum(each.size for each in transfers) / 1e6
    took_s = sum(each.took_s for each in transfers)
    form = f"{TRANSFERRED} problem=%r" if problem else TRANSFERRED
    log.info(form, done, model, len(transfers), tokens, size_mb, took_s, *([problem] if problem else []))


def named(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"
