"""Starts, watches and stops model servers for the dispatcher, by LaunchId."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.filled_recipe import fill, with_gpus
from hotseat.catalog.redaction import without
from hotseat.catalog.spec import NOTHING
from hotseat.errors import LoadFailed
from hotseat.identifiers import Upstream
from hotseat.model_servers.conversations.attempt import Outcome
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.manager import Conversations
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.model_servers.guard_client import ISOLATED, Guard
from hotseat.model_servers.launch import Launch, Trouble
from hotseat.model_servers.llama_props import LLAMA_SERVER, props_of
from hotseat.model_servers.orphans import end_leftovers, private_folder
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.own_metrics import metrics_of
from hotseat.model_servers.ports import Ports
from hotseat.model_servers.readahead import ModelsReadAhead
from hotseat.model_servers.server_description import ServerDescription, fingerprint_of
from hotseat.model_servers.sleeping import resume, suspend
from hotseat.model_servers.taken_servers import TakenServers
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
    import socket
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence

    from hotseat.catalog.sleeping import SleepLevel
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Address, Bytes, DeviceName, LaunchId, ModelName, Place
    from hotseat.model_servers.guard_grace import GuardGrace
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


NO_FOLDER = "the server was started without a folder for its conversations"
NOWHERE = Path(os.devnull)
"""No folder can be made there."""
OTHERS_FOLDER = "an earlier hotseat process started the server, with a folder of its own for conversations"


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
        self._taken = TakenServers()
        self._guard, self._ports, self.outputs = guard, ports, outputs
        self._environ = environ
        self._withheld_env = withheld_env
        self._card_names = card_names
        self.conversations = conversations or Conversations(SavedFiles(NOWHERE, no_memory))
        self._launches: dict[LaunchId, Launch] = {}
        self._contexts: dict[ModelName, int] = {}
        self._read_ahead = ModelsReadAhead(available)

    @property
    def guard(self) -> Guard:
        """With which the servers are handed over to another hotseat process."""
        return self._guard

    @property
    def is_handed_over(self) -> bool:
        """Another hotseat process has the servers: this one must neither touch nor judge them."""
        return self._guard.taken.done()

    def pids(self) -> dict[ModelName, int]:
        """The server process of each model, from start to exit; none if another hotseat process has them."""
        if self.is_handed_over:
            return {}
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
        self._read_ahead.stop(command.model)  # from now on the server reads its files itself
        output = self.outputs.of(command.model)
        spec, environ = self._on_its_gpus(command.spec, command.gpus)
        environ = self.conversations.start(command.launch, command.spec, environ)
        launch = Launch(spec, environ, self._guard, self._ports, output)
        self._launches[command.launch] = launch
        await self._taken.ended()
        try:
            upstream = await launch.bring_up()
        except LoadFailed as error:
            self._forget(command.launch)
            return UpstreamFailed(command.model, command.launch, error)
        except Exception:
            self._forget(command.launch)
            raise
        launch.describe(self._description(command, launch, upstream))
        return UpstreamReady(command.model, command.launch, upstream)

    def _description(self, command: StartUpstream, launch: Launch, upstream: Upstream) -> ServerDescription:
        return ServerDescription(
            model=command.model,
            launch=command.launch,
            pid=upstream.pid or 0,
            address=upstream.address,
            port=launch.port,
            check_endpoint=fill(command.spec.recipe, launch.port or 0).check_endpoint,
            fingerprint=fingerprint_of(command.spec),
            gpus=command.gpus,
            ready_at=time.time(),
            server=launch.server,
            conversations=self.conversations.kept_in(command.launch),
        )

    def _on_its_gpus(self, spec: ModelSpec, gpus: tuple[Place, ...]) -> tuple[ModelSpec, dict[str, str]]:
        """The spec with its cards filled in, and hotseat's environment with only these cards in it."""
        environ = {name: value for name, value in self._environ.items() if name not in self._withheld_env}
        if not gpus:
            return spec, environ
        names = self._card_names()
        known = {place.device: names.get(place.device) for place in gpus}
        unnamed = [device for device, card in known.items() if card is None]
        if unnamed:
            log.warning("server is not limited to its GPUs model=%s unknown=%s", spec.name, ",".join(unnamed))
        else:
            chosen = [card for card in known.values() if card]
            environ = limited(environ, chosen, spec.recipe, names.values())
        filled = ",".join(card.name if card else device for device, card in known.items())
        return replace(spec, recipe=with_gpus(spec.recipe, filled)), environ

    # Servers of another hotseat process

    def offer(self) -> socket.socket:
        """A connection with which another hotseat process may take the servers."""
        return self._guard.offer()

    async def withdraw(self) -> bool:
        """Take the offer back; False: the servers were taken."""
        return await self._guard.withdraw()

    async def were_taken(self) -> None:
        """Return when another hotseat process has taken the servers."""
        await asyncio.shield(self._guard.taken)

    async def take(self, connection: socket.socket) -> None:
        """Take the servers of another hotseat process; this one has started none so far. CannotTake: it may not.

        `connection` is of `Guard.offer` in the other process, or of `Guard.connect`.
        """
        processes = await self._guard.take(connection)
        self._taken = TakenServers(processes, were_orphaned=self._guard.was_orphaned)

    async def taken(self) -> list[ServerDescription]:
        """The servers that were handed over and can be adopted: they are ready or sleep, and their process lives.

        If their hotseat was killed, each must answer its health check within seconds.
        """
        return await self._taken.usable()

    def adopt(self, launch: LaunchId, description: ServerDescription, spec: ModelSpec) -> UpstreamReady:
        """Treat one of `taken` as if this supervisor had started it. `spec` must have the same fingerprint."""
        taken, output = self._taken.claim(description), self.outputs.of(spec.name)
        filled, environ = self._on_its_gpus(spec, description.gpus)
        adopted = Launch.adopted(filled, environ, self._guard, self._ports, output, taken, description)
        adopted.describe(replace(description, launch=launch))
        self._launches[launch] = adopted
        self.conversations.adopt(launch, spec, environ, description)
        if description.context is not None:
            self._contexts[spec.name] = description.context
        return UpstreamReady(spec.name, launch, Upstream(description.address, description.pid))

    def end_unadopted(self) -> Coroutine[Any, Any, None]:
        """End all else that was handed over. It has the memory that a new server may need, so starts wait for it."""
        self._taken.end_unclaimed()
        return self._taken.ended()

    # Ready servers

    async def watch(self, ready: UpstreamReady) -> UpstreamExited:
        """Return when no process of the launch is left."""
        end = await self._launches[ready.launch].ended()
        self._forget(ready.launch)
        return UpstreamExited(ready.model, ready.launch, end.exit_status, end.output, end.hint)

    def _forget(self, launch: LaunchId) -> None:
        del self._launches[launch]
        self.conversations.end(launch)

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None:
        """The server's slots, if it is a llama-server; others are not asked."""
        launch = self._launches.get(ready.launch)
        if launch is None or launch.server != LLAMA_SERVER:
            return None
        slots, context = await props_of(ready.upstream.address, launch.api_key)
        if context is not None:
            self._contexts[ready.model] = context
        if launch.description:
            launch.describe(replace(launch.description, slots=slots, context=context))
        return None if slots is None else SlotsLearned(ready.model, ready.launch, slots)

    async def own_metrics(self, launch: LaunchId) -> str | None:
        """The page of metrics of a ready server; None: it has none, or has ended."""
        server = self._launches.get(launch)
        return await metrics_of(server.address, server.api_key) if server else None

    async def stop(self, command: StopUpstream) -> None:
        """End the launch, by force if needed. Safe to call twice, and for a launch that has ended."""
        if launch := self._launches.get(command.launch):
            await launch.end()

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        """Return when the server sleeps or has failed to; its process lives on."""
        try:
            is_done = await self._changed(command, suspend, command.level.name)
        except Trouble as trouble:
            return SleepFailed(command.model, command.launch, str(trouble))
        return UpstreamAsleep(command.model, command.launch) if is_done else None

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        """Return when the server is ready or has failed to wake; its process lives on."""
        try:
            is_done = await self._changed(command, resume, None)
        except Trouble as trouble:
            return WakeFailed(command.model, command.launch, str(trouble))
        return UpstreamAwake(command.model, command.launch) if is_done else None

    async def _changed(
        self,
        command: PutToSleep | WakeUp,
        change: Callable[[Launch, SleepLevel], Coroutine[Any, Any, bool]],
        sleep: str | None,
    ) -> bool:
        """Between ready and asleep no other hotseat process may take it over."""
        if (launch := self._launches.get(command.launch)) is None:
            return False
        launch.hide()
        is_done = await change(launch, command.level)
        if is_done and launch.description:
            launch.describe(replace(launch.description, sleep=sleep))
        return is_done

    # Conversations

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
        launch, kept = self._launches.get(command.launch), self.conversations.of_server(command.launch)
        if launch is None:
            return None
        if kept is None:
            return Outcome(problem=OTHERS_FOLDER if launch.is_adopted else NO_FOLDER)
        outcome = await launch.while_wanted(lambda: move(kept, launch.address, command.allowance), "moved")
        return outcome and outcome._replace(problem=without(outcome.problem, launch.recipe.secrets))

    async def read_ahead(self, command: ReadAhead) -> None:
        """Read the model's files into the page cache; return when done, or when its server starts."""
        await self._read_ahead.read(command.model, command.spec.recipe.argv)


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
    grace: GuardGrace | None = None,
    starts_guard: bool = True,
) -> AsyncIterator[Supervisor]:
    """A supervisor with its own guard; at the end none of their processes is left, unless they were handed over.

    `records` is the folder for the guard's record of its processes, in case it is killed together with hotseat. With a
    `grace` the guard keeps the servers of a hotseat that is killed. Without `starts_guard`, `take` gets the guard and
    the servers of another hotseat process.
    """
    folder = private_folder(records)
    end_leftovers(folder)
    guard = Guard(interpreter, folder, grace)
    if starts_guard:
        guard.start()
    if conversations:
        guard.taken.add_done_callback(lambda _: conversations.leave())
    try:
        yield Supervisor(
            guard, Ports(), outputs or Outputs(), environ, withheld_env, available, card_names, conversations
        )
    finally:
        await guard.aclose()
        await asyncio.sleep(0)  # the callback of `taken` runs before the folder of conversations is closed
