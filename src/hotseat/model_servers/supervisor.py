"""Starts, watches and stops model servers for the dispatcher, by LaunchId."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotseat.catalog.filled_recipe import with_gpus
from hotseat.catalog.redaction import without
from hotseat.catalog.spec import NOTHING
from hotseat.errors import LoadFailed
from hotseat.model_servers.conversations.attempt import Outcome
from hotseat.model_servers.conversations.files import Kept
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.model_servers.guard_client import ISOLATED, Guard
from hotseat.model_servers.launch import Launch, Trouble
from hotseat.model_servers.llama_props import LLAMA_SERVER, props_of
from hotseat.model_servers.orphans import end_leftovers, private_folder
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.ports import Ports
from hotseat.model_servers.readahead import ReadingAhead
from hotseat.model_servers.sleeping import resume, suspend
from hotseat.model_servers.visible_gpus import limited
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
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address, Bytes, DeviceName, LaunchId, ModelName
    from hotseat.model_servers.conversations.manager import Conversations
    from hotseat.model_servers.visible_gpus import CardName
    from hotseat.scheduling.commands import (
        Allowance,
        PutToSleep,
        ReadAhead,
        RestoreConversations,
        SaveConversations,
        StartUpstream,
        StopUpstream,
        WakeUp,
    )

log = logging.getLogger(__name__)


def no_cards() -> Mapping[DeviceName, CardName]:
    """Without names of cards every server sees all of them."""
    return NOTHING


def no_memory() -> Bytes:
    """Without a memory figure nothing is read ahead."""
    return 0


class Supervisor:
    def __init__(
        self,
        guard: Guard,
        ports: Ports,
        outputs: Outputs,
        environ: Mapping[str, str],
        withheld_env: Collection[str] = frozenset(),
        available: Callable[[], Bytes] = no_memory,
        card_names: Callable[[], Mapping[DeviceName, CardName]] = no_cards,
        conversations: Conversations | None = None,
    ) -> None:
        """`available` returns how much memory read-ahead may use, `card_names` what CUDA and ROCm call each GPU.

        Without `conversations`, servers save none.
        """
        self._guard, self._ports, self.outputs = guard, ports, outputs
        self._environ = environ
        self._withheld_env = withheld_env
        self._available, self._card_names = available, card_names
        self._conversations = conversations
        self._launches: dict[LaunchId, Launch] = {}
        self._kept: dict[LaunchId, ServerConversations] = {}
        """Of servers that save their conversations."""
        self._contexts: dict[ModelName, int] = {}
        self._read_ahead_of: dict[ModelName, ReadingAhead] = {}
        self._disk = asyncio.Lock()
        """Held while reading ahead: two at a time would be slower, and count the same memory twice."""

    def pids(self) -> dict[ModelName, int]:
        """The server process of each model, from start to exit."""
        return {launch.model: launch.pid for launch in self._launches.values() if launch.pid is not None}

    def withhold(self, withheld_env: Collection[str]) -> None:
        """Start servers without these variables from now on."""
        self._withheld_env = withheld_env

    def share_taken_in(self, model: ModelName) -> float | None:
        """The share of its files that the model's newest server has read; None: unknown."""
        launches = [launch for launch in self._launches.values() if launch.model == model]
        return launches[-1].share_taken_in() if launches else None

    def context(self, model: ModelName) -> int | None:
        """Tokens of one request, as the model's last server reported; None: unknown."""
        return self._contexts.get(model)

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        """Return when the server is ready, or when it failed and none of its processes is left."""
        self._stop_reading(command.model)
        output = self.outputs.of(command.model)
        spec, environ = self._on_its_gpus(command)
        environ = self._with_conversations(command, environ)
        launch = Launch(spec, environ, self._guard, self._ports, output)
        self._launches[command.launch] = launch
        try:
            upstream = await launch.bring_up()
        except LoadFailed as error:
            self._forget(command.launch)
            return UpstreamFailed(command.model, command.launch, error)
        except Exception:
            self._forget(command.launch)
            raise
        return UpstreamReady(command.model, command.launch, upstream)

    def _on_its_gpus(self, command: StartUpstream) -> tuple[ModelSpec, dict[str, str]]:
        """The spec with its cards filled in, and hotseat's environment with only these cards in it."""
        environ = {name: value for name, value in self._environ.items() if name not in self._withheld_env}
        if not command.gpus:
            return command.spec, environ
        names = self._card_names()
        known = {place.device: names.get(place.device) for place in command.gpus}
        unnamed = [device for device, card in known.items() if card is None]
        if unnamed:
            log.warning("server is not limited to its GPUs model=%s unknown=%s", command.model, ",".join(unnamed))
        else:
            chosen = [card for card in known.values() if card]
            environ = limited(environ, chosen, command.spec.recipe, names.values())
        filled = ",".join(card.name if card else device for device, card in known.items())
        return replace(command.spec, recipe=with_gpus(command.spec.recipe, filled)), environ

    async def watch(self, ready: UpstreamReady) -> UpstreamExited:
        """Return when no process of the launch is left."""
        end = await self._launches[ready.launch].ended()
        self._forget(ready.launch)
        return UpstreamExited(ready.model, ready.launch, end.exit_status, end.output, end.hint)

    def _forget(self, launch: LaunchId) -> None:
        del self._launches[launch]
        if kept := self._kept.pop(launch, None):
            kept.ended()

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None:
        """The server's slots, if it is a llama-server; others are not asked."""
        launch = self._launches.get(ready.launch)
        if launch is None or launch.server != LLAMA_SERVER:
            return None
        slots, context = await props_of(ready.upstream.address, launch.api_key)
        if context is not None:
            self._contexts[ready.model] = context
        return None if slots is None else SlotsLearned(ready.model, ready.launch, slots)

    async def stop(self, command: StopUpstream) -> None:
        """End the launch, by force if needed. Safe to call twice, and for a launch that has ended."""
        if launch := self._launches.get(command.launch):
            await launch.end()

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        """Return when the server sleeps or has failed to; its process lives on."""
        launch = self._launches.get(command.launch)
        try:
            is_done = launch is not None and await suspend(launch, command.level)
        except Trouble as trouble:
            return SleepFailed(command.model, command.launch, str(trouble))
        return UpstreamAsleep(command.model, command.launch) if is_done else None

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """Return when the server is ready or has failed to wake; its process lives on."""
        launch = self._launches.get(command.launch)
        try:
            is_done = launch is not None and await resume(launch, command.level)
        except Trouble as trouble:
            return WakeFailed(command.model, command.launch, str(trouble))
        return UpstreamAwake(command.model, command.launch) if is_done else None

    # Conversations

    def kept_conversations(self, model: ModelName) -> Kept:
        """How many conversations of a model are on disk, and their size."""
        return self._conversations.kept(model) if self._conversations else Kept()

    def trim_conversations(self) -> None:
        """Remove what exceeds the disk budget, which has changed."""
        if self._conversations:
            self._conversations.trim()

    def _with_conversations(self, command: StartUpstream, environ: dict[str, str]) -> dict[str, str]:
        """hotseat's environment with what the server needs in order to save its conversations, if it does."""
        kept = self._conversations.of_server(command.spec, environ) if self._conversations else None
        if kept is None:
            return environ
        self._kept[command.launch] = kept
        return {**environ, **kept.environment}

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        """Return when all that the allowance permits is saved.

        The server lives on, unless it did not answer in time: it is about to be stopped, and may not react to SIGTERM.
        """
        outcome = await self._moved(command, ServerConversations.save)
        if outcome and outcome.is_late and (launch := self._launches.get(command.launch)):
            launch.kill()
        if outcome is None:
            return None
        return ConversationsSaved(command.model, command.launch, outcome.done, outcome.problem, outcome.unfinished)

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        """Return when all that the allowance permits is restored; the server lives on."""
        outcome = await self._moved(command, ServerConversations.restore)
        return ConversationsRestored(command.model, command.launch, outcome.done, outcome.problem) if outcome else None

    async def _moved(
        self,
        command: SaveConversations | RestoreConversations,
        move: Callable[[ServerConversations, Address, Allowance], Coroutine[Any, Any, Outcome]],
    ) -> Outcome | None:
        launch, kept = self._launches.get(command.launch), self._kept.get(command.launch)
        if launch is None:
            return None
        if kept is None:
            return Outcome(problem="the server was started without a folder for its conversations")
        outcome = await launch.while_wanted(lambda: move(kept, launch.address, command.allowance), "moved")
        return outcome and outcome._replace(problem=without(outcome.problem, launch.recipe.secrets))

    async def read_ahead(self, command: ReadAhead) -> None:
        """Read the model's files into the page cache; return when done, or when its server starts."""
        began = asyncio.get_running_loop().time()
        reading = self._read_ahead_of[command.model] = ReadingAhead(command.spec.recipe.argv, self._available)
        async with self._disk:
            await reading.run()
        took_s = asyncio.get_running_loop().time() - began
        log.info("read ahead model=%s size_mb=%d took_s=%.2f", command.model, reading.done // 10**6, took_s)

    def _stop_reading(self, model: ModelName) -> None:
        """From now on the server reads its files itself."""
        if reading := self._read_ahead_of.pop(model, None):
            reading.stop()


@asynccontextmanager
async def open_supervisor(
    environ: Mapping[str, str],
    withheld_env: Collection[str] = frozenset(),
    outputs: Outputs | None = None,
    interpreter: Sequence[str] = ISOLATED,
    available: Callable[[], Bytes] = no_memory,
    records: Path | None = None,
    card_names: Callable[[], Mapping[DeviceName, CardName]] = no_cards,
    conversations: Conversations | None = None,
) -> AsyncIterator[Supervisor]:
    """A supervisor with its own guard; at the end none of their processes is left.

    `records` is the folder for the guard's record of its processes, in case it is killed together with hotseat.
    """
    folder = private_folder(records)
    end_leftovers(folder)
    guard = await Guard.open(interpreter, folder)
    try:
        yield Supervisor(
            guard, Ports(), outputs or Outputs(), environ, withheld_env, available, card_names, conversations
        )
    finally:
        await guard.aclose()
