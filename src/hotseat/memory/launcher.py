"""A launcher that waits until memory released by stopped servers is really free before it starts the next one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from hotseat.catalog.spec import Source
from hotseat.errors import LoadFailed
from hotseat.identifiers import ANY_GPU
from hotseat.memory.meter import WITHIN_S, until_free
from hotseat.scheduling.events import UpstreamFailed
from hotseat.scheduling.memory_fit import in_gib
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.catalog.spec import Footprint
    from hotseat.dispatch.server_tasks import Launcher
    from hotseat.identifiers import Bytes, DeviceName, Instant, LaunchId, ModelName, Place, Seconds
    from hotseat.memory.meter import Freed, Watches
    from hotseat.scheduling.commands import (
        PutToSleep,
        ReadAhead,
        RestoreConversations,
        SaveConversations,
        StartUpstream,
        StopUpstream,
        WakeUp,
    )
    from hotseat.scheduling.events import (
        ConversationsRestored,
        ConversationsSaved,
        SleepFailed,
        SlotsLearned,
        UpstreamAsleep,
        UpstreamAwake,
        UpstreamExited,
        UpstreamReady,
        WakeFailed,
    )

log = logging.getLogger(__name__)

FRESH_S: Seconds = 10.0
"""A stop longer ago has released everything it will; missing memory is then in use by other programs."""
SLACK = 0.95
"""Share of the needed memory to wait for: figures are estimates, and the last percent may never become free."""


class KnowsMemory(Protocol):
    """The part of the scheduler that is used here."""

    @property
    def limits(self) -> Mapping[Place, Bytes]: ...

    def footprint(self, model: ModelName) -> Footprint | None: ...

    def needs(self, model: ModelName, gpus: tuple[Place, ...] = ()) -> Mapping[Place, Bytes]: ...


class MemoryGatedLauncher:
    def __init__(self, launcher: Launcher, gauge: Watches, scheduler: Callable[[], KnowsMemory | None]) -> None:
        """`scheduler` returns None while memory is not measured."""
        self._launcher, self._gauge, self._scheduler = launcher, gauge, scheduler
        self._ended_at: Instant = float("-inf")
        self._waiting: dict[LaunchId, asyncio.Task[Freed]] = {}
        self._wanted_launches: set[LaunchId] = set()
        """Launches in progress that were not told to stop."""
        self._gpus: dict[LaunchId, tuple[Place, ...]] = {}
        """The cards of each process, if they were chosen for it."""
        self._tasks = Tasks()

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        """Wait for memory first if some was just released."""
        self._wanted_launches.add(command.launch)
        try:
            return await self._start(command)
        except LoadFailed as obstacle:
            return UpstreamFailed(command.model, command.launch, obstacle)
        finally:
            self._wanted_launches.discard(command.launch)

    async def _start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        """Retry once if the start fails while memory is missing and the memory becomes free after all."""
        freed = await self._freed(command)
        started = await self._try(command)
        if freed is None or not freed.missing or not isinstance(started, UpstreamFailed):
            return started
        if command.launch not in self._wanted_launches:
            return started
        freed = await self._freed(command)
        if freed is None or freed.missing:
            return started
        log.info("memory was freed late, retrying the start model=%s", command.model)
        return await self._try(command)

    async def _try(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        started = await self._launcher.start(command)
        if isinstance(started, UpstreamFailed):
            self._note_end()
        elif command.gpus:
            self._gpus[command.launch] = command.gpus
        return started

    async def watch(self, ready: UpstreamReady) -> UpstreamExited:
        try:
            exited = await self._launcher.watch(ready)
        finally:
            self._gpus.pop(ready.launch, None)
        self._note_end()
        return exited

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None:
        return await self._launcher.ask_slots(ready)

    async def stop(self, command: StopUpstream) -> None:
        self._wanted_launches.discard(command.launch)
        if waiting := self._waiting.get(command.launch):
            waiting.cancel()
        else:
            await self._launcher.stop(command)

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        outcome = await self._launcher.put_to_sleep(command)
        self._note_end()
        return outcome

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """Wait for memory as before a start; if some is still missing then, the server itself fails."""
        if wanted := self._wanted(command.model, self._gpus.get(command.launch, ())):
            await self._until_free(command.model, wanted)
        return await self._launcher.wake_up(command)

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        return await self._launcher.save_conversations(command)

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        return await self._launcher.restore_conversations(command)

    async def read_ahead(self, command: ReadAhead) -> None:
        await self._launcher.read_ahead(command)

    def _note_end(self) -> None:
        self._ended_at = asyncio.get_running_loop().time()

    async def _freed(self, command: StartUpstream) -> Freed | None:
        """The result of the wait; None: there was nothing to wait for. LoadFailed: do not start."""
        wanted = self._wanted(command.model, command.gpus)
        if not wanted:
            return None
        waiting: asyncio.Task[Freed] = self._tasks.start(
            self._until_free(command.model, wanted), f"memory for {command.model}"
        )
        self._waiting[command.launch] = waiting
        try:
            await asyncio.wait([waiting])
        finally:
            del self._waiting[command.launch]
            waiting.cancel()
        # A stop may arrive after the wait has ended and before this task resumes: it had nothing to cancel then.
        if waiting.cancelled() or command.launch not in self._wanted_launches:
            raise LoadFailed(f"{command.model} was stopped before it was started")
        if obstacle := self._obstacle(command, waiting.result()):
            raise obstacle
        return waiting.result()

    def _obstacle(self, command: StartUpstream, freed: Freed) -> LoadFailed | None:
        scheduler = None if command.alone else self._scheduler()
        return verdict(command.model, scheduler.footprint(command.model) if scheduler else None, command.gpus, freed)

    def _wanted(self, model: ModelName, gpus: tuple[Place, ...]) -> dict[DeviceName, Bytes]:
        """The memory to wait for; empty if none was released lately."""
        scheduler = self._scheduler()
        if scheduler is None or asyncio.get_running_loop().time() - self._ended_at > FRESH_S:
            return {}
        figures = scheduler.needs(model, gpus)
        return {place.device: int(SLACK * bytes_) for place, bytes_ in figures.items() if bytes_}

    async def _until_free(self, model: ModelName, wanted: Mapping[DeviceName, Bytes]) -> Freed:
        freed = await until_free(self._gauge, wanted, WITHIN_S)
        for device, lack in freed.missing.items():
            log.warning(
                "memory was not released model=%s device=%s needed=%r free=%r missing=%r waited_s=%.1f",
                model,
                device,
                in_gib(wanted[device]),
                in_gib(freed.free[device]),
                in_gib(lack),
                freed.took_s,
            )
        return freed


def verdict(model: ModelName, footprint: Footprint | None, gpus: tuple[Place, ...], freed: Freed) -> LoadFailed | None:
    """PURE: a measured figure decides; an estimate may be wrong, so then the server is started anyway. So is one with
    several cards, because only their sum was measured.
    """
    if not freed.missing or footprint is None or footprint.source is Source.ESTIMATED:
        return None
    figures = {
        (gpus[0] if place == ANY_GPU and len(gpus) == 1 else place): at for place, at in footprint.memory.items()
    }
    lacking = {place.device: size for place, size in figures.items() if place.device in freed.missing}
    if not lacking:
        return None
    device, needed = next(iter(lacking.items()))
    return LoadFailed(
        f"{model} needs {in_gib(needed)} of {device} ({footprint.source.value}), but only"
        f" {in_gib(freed.free[device])} is free {freed.took_s:.0f} s after another server exited."
        " Run `hotseat devices` to see what uses it.",
        may_pass=True,
    )
