"""Carries out the commands about servers, one task each; the outcome is the next event.

An exception also becomes an event. A start that raises has failed, a watch that raises is an exit, and in both cases
the rest of the server is stopped first; a stop that raises is retried as long as the server lives.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, assert_never

from hotseat.dispatch.ready_server_tasks import ReadyServerTasks, named
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
    ShutdownRequested,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
)
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.launcher import Launcher
    from hotseat.identifiers import Instant, LaunchId, ModelName, Seconds
    from hotseat.scheduling.commands import ServerCommand
    from hotseat.scheduling.events import Event, ServerAdopted

log = logging.getLogger(__name__)

PAUSE_S: Seconds = 0.02
"""Minimum time between a server's last request and its stop: a llama-server that sees both at once may hang until it is
killed."""
STOP_AGAIN_S: Seconds = 1.0
STUCK_S: Seconds = 5.0
"""Added to `unload_timeout_s`: a server that still exists after that will not end by waiting."""


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
