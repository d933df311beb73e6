"""A launcher that starts no processes: each model does what the test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hotseat.catalog.catalog import Catalog
from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.errors import LoadFailed
from hotseat.identifiers import Address, ModelName, Upstream
from hotseat.scheduling.events import (
    ConversationsRestored,
    ConversationsSaved,
    SleepFailed,
    SlotsLearned,
    UpstreamAsleep,
    UpstreamAwake,
    UpstreamExited,
    UpstreamFailed,
    UpstreamReady,
    WakeFailed,
)

if TYPE_CHECKING:
    from typing import Any

    from hotseat.identifiers import LaunchId
    from hotseat.scheduling.commands import (
        PutToSleep,
        ReadAhead,
        RestoreConversations,
        SaveConversations,
        StartUpstream,
        StopUpstream,
        WakeUp,
    )
    from hotseat.scheduling.events import Transfer

FIRST_PORT = 40_000
FIRST_PID = 7_000


def spec(name: str, **known: Any) -> ModelSpec:
    recipe = LaunchRecipe(("serve", name), "http://127.0.0.1:${PORT}", env=(("SECRET", "hush"),))
    return ModelSpec(ModelName(name), recipe, **known)


def catalog(*specs: ModelSpec) -> Catalog:
    return Catalog({each.name: each for each in specs})


class FakeLauncher:
    """Models become ready at once, except slow ones, which wait for `become_ready`, and broken ones, which fail."""

    def __init__(self, slow: tuple[str, ...] = (), broken: tuple[str, ...] = ()) -> None:
        self.slow = slow
        self.broken = broken
        self.output: tuple[str, ...] = ()
        """The output of broken models' servers."""
        self.failure = "{} exited with code 1"
        self.failure_may_pass = True
        """Why a broken model does not start."""
        self.slots: dict[str, int] = {}
        """The slots that a model's server reports; a model that is missing reports none."""
        self.read_ahead_of: list[str] = []
        """Models whose files are being read ahead."""
        self.asleep: list[str] = []
        self.cannot_sleep: tuple[str, ...] = ()
        """Models that cannot be put to sleep."""
        self.dead_asleep: tuple[str, ...] = ()
        """Models that cannot be woken."""
        self.conversations: tuple[Transfer, ...] = ()
        """What each server saves and restores."""
        self.saved: list[str] = []
        self.restored: list[str] = []
        self.hangs_saving: tuple[str, ...] = ()
        """Models whose server is told to stop before it has saved anything."""
        self.metrics_pages: dict[str, str] = {}
        """What each server prints for Prometheus; a model that is missing has no such page."""
        self.asked_for_metrics: list[str] = []
        self._launched: dict[LaunchId, str] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._gone: dict[str, asyncio.Future[str]] = {}

    def become_ready(self, model: str) -> None:
        self._ready[model].set()

    def crash(self, model: str, how: str) -> None:
        self._gone[model].set_result(how)

    def is_starting(self, model: str) -> bool:
        return model in self._ready and not self._ready[model].is_set()

    @property
    def alive(self) -> list[str]:
        """Models whose server was started and has not ended."""
        return [model for model, gone in self._gone.items() if not gone.done()]

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        name, launch = command.model, command.launch
        self._launched[launch] = name
        self._gone[name] = asyncio.get_running_loop().create_future()
        if name in self.broken:
            self._gone[name].set_result("exited with code 1")
            error = LoadFailed(self.failure.format(name), output=self.output, may_pass=self.failure_may_pass)
            return UpstreamFailed(name, launch, error)
        if name in self.slow and not await self._comes_up(name):
            return UpstreamFailed(name, launch, LoadFailed(f"{name} was stopped while it was loading"))
        return UpstreamReady(name, launch, Upstream(Address("127.0.0.1", FIRST_PORT + launch), FIRST_PID + launch))

    async def watch(self, ready: UpstreamReady) -> UpstreamExited:
        return UpstreamExited(ready.model, ready.launch, await self._gone[ready.model])

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None:
        slots = self.slots.get(ready.model)
        return None if slots is None else SlotsLearned(ready.model, ready.launch, slots)

    async def own_metrics(self, launch: LaunchId) -> str | None:
        self.asked_for_metrics.append(self._launched[launch])
        return self.metrics_pages.get(self._launched[launch])

    async def stop(self, command: StopUpstream) -> None:
        if command.model in self.alive:
            self._gone[command.model].set_result("exited as asked")
        if command.model in self._ready:
            self._ready[command.model].set()

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        self.asleep.append(command.model)
        if command.model in self.cannot_sleep:
            return SleepFailed(command.model, command.launch, "POST /sleep was answered with 500")
        return UpstreamAsleep(command.model, command.launch)

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        self.asleep.remove(command.model)
        if command.model in self.dead_asleep:
            return WakeFailed(command.model, command.launch, "POST /wake_up was answered with 500")
        return UpstreamAwake(command.model, command.launch)

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        if command.model in self.hangs_saving:
            await self._gone[command.model]
            return None
        self.saved.append(command.model)
        return ConversationsSaved(command.model, command.launch, self.conversations)

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        self.restored.append(command.model)
        return ConversationsRestored(command.model, command.launch, self.conversations)

    async def read_ahead(self, command: ReadAhead) -> None:
        """Never finishes."""
        self.read_ahead_of.append(command.model)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.read_ahead_of.remove(command.model)

    async def _comes_up(self, name: str) -> bool:
        self._ready[name] = asyncio.Event()
        await self._ready[name].wait()
        return not self._gone[name].done()
