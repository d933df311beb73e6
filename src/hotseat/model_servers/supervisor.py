"""Starts, watches and stops model servers for the dispatcher, by LaunchId, with a guard that it opens and closes."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.catalog.spec import NOTHING, fill
from hotseat.errors import LoadFailed
from hotseat.model_servers import running_server
from hotseat.model_servers.adoption import ServerDescription, TakenServers, fingerprint_of
from hotseat.model_servers.api_key import KEYS_VARIABLES, with_key
from hotseat.model_servers.conversations import transfers
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.manager import Conversations
from hotseat.model_servers.conversations.saves_in_progress import SavesInProgress
from hotseat.model_servers.guard_client import ISOLATED, Guard
from hotseat.model_servers.launch import Launch
from hotseat.model_servers.launch_processes import LaunchEnvironment, environment
from hotseat.model_servers.orphans import end_leftovers, private_folder
from hotseat.model_servers.output import Outputs
from hotseat.model_servers.ports import Ports
from hotseat.model_servers.readahead import ModelsReadAhead
from hotseat.model_servers.running_server import adopt
from hotseat.model_servers.self_reports import LLAMA_SERVER, metrics_of, props_of
from hotseat.scheduling.events import SlotsLearned, UpstreamExited, UpstreamFailed, UpstreamReady

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from hotseat.catalog.catalog import Catalog
    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, DeviceName, LaunchId, ModelName
    from hotseat.model_servers.guard_grace import GuardGrace
    from hotseat.model_servers.running_server import RunningServer
    from hotseat.model_servers.visible_gpus import CardName
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
        UpstreamAsleep,
        UpstreamAwake,
        WakeFailed,
    )

NOWHERE = Path(os.devnull)
"""No folder can be made there."""


def no_cards() -> Mapping[DeviceName, CardName]:
    """Without names of cards every server sees all of them."""
    return NOTHING


def no_memory() -> Bytes:
    """Without a memory figure nothing is read ahead."""
    return 0


def no_conversations() -> Conversations:
    files = SavedFiles(NOWHERE)
    return Conversations(files, SavesInProgress(files, no_memory))


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
    makes_keys: Callable[[], bool] = bool,
    fixed_ports: Callable[[], frozenset[int]] = frozenset,
) -> AsyncIterator[Supervisor]:
    """A supervisor with its own guard; at the end none of their processes is left, unless they were handed over.

    `records` is the folder for the guard's record of its processes, in case it is killed together with hotseat. With a
    `grace` the guard keeps the servers of a hotseat that is killed. Without `starts_guard`, `take` gets the guard and
    the servers of another hotseat process. Without `conversations`, servers save none.
    """
    folder = private_folder(records)
    end_leftovers(folder)
    guard = Guard(interpreter, folder, grace)
    if starts_guard:
        guard.start()
    if conversations:
        guard.taken.add_done_callback(lambda _: conversations.leave())
    try:
        environment = LaunchEnvironment(environ, withheld_env, card_names, makes_keys)
        kept, ports = conversations or no_conversations(), Ports(fixed_ports)
        yield Supervisor(guard, environment, outputs or Outputs(), kept, available, ports)
    finally:
        await guard.aclose()
        await asyncio.sleep(0)  # the callback of `taken` runs before the folder of conversations is closed


class Supervisor:
    def __init__(
        self,
        guard: Guard,
        environment: LaunchEnvironment,
        outputs: Outputs,
        conversations: Conversations,
        available: Callable[[], Bytes],
        ports: Ports,
    ) -> None:
        """`available` returns how much memory read-ahead may use."""
        self.guard, self.environment, self.outputs, self.conversations = guard, environment, outputs, conversations
        self._ports = ports
        self._taken = TakenServers()
        self._starting: dict[LaunchId, Launch] = {}
        self._running: dict[LaunchId, RunningServer] = {}
        self._contexts: dict[ModelName, int] = {}
        self._read_ahead = ModelsReadAhead(available)

    def pids(self) -> dict[ModelName, int]:
        """The server process of each model, from start to exit; none if another hotseat process has them."""
        if self.guard.is_handed_over:
            return {}
        return {launch.model: launch.pid for launch in self._all() if launch.pid is not None}

    def displaced(self, ports: Collection[int]) -> tuple[ModelName, ...]:
        """The models whose server was given one of these ports, and might have got another."""
        return tuple(launch.model for launch in self._all() if launch.port in ports)

    def share_taken_in(self, model: ModelName) -> float | None:
        """The share of its files that the model's newest server has read so far; None: unknown, or none is starting."""
        launches = [launch for launch in self._starting.values() if launch.model == model]
        return launches[-1].share_taken_in() if launches else None

    def _all(self) -> list[Launch | RunningServer]:
        """The newest of a model last."""
        return [*self._running.values(), *self._starting.values()]

    def context(self, model: ModelName) -> int | None:
        """Tokens of one request, as the model's last server reported; None: unknown."""
        return self._contexts.get(model)

    def forget_others(self, models: Collection[ModelName]) -> None:
        """Drop the output and the context of models that are none of these and have no server."""
        kept = {*models, *(launch.model for launch in self._all())}
        self.outputs.keep(kept)
        self._contexts = {model: context for model, context in self._contexts.items() if model in kept}

    async def start(self, command: StartUpstream) -> UpstreamReady | UpstreamFailed:
        """Return when the server is ready, or when it failed and none of its processes is left."""
        self._read_ahead.stop(command.model)  # from now on the server reads its files itself
        output = self.outputs.of(command.model)
        spec, environ = self.environment.on_gpus(command.spec, command.gpus)
        recipe = spec.recipe
        made = with_key(recipe.argv, environment(environ, recipe.env)) if self.environment.makes_keys() else {}
        environ |= made
        launch = Launch(spec, environ, self.guard, self._ports, output, "".join(made.values()))
        self._starting[command.launch] = launch
        await self._taken.ended()
        try:
            environ |= await self.conversations.start(command.launch, command.spec, environ)  # `launch` has it too
            server = await launch.bring_up()
        except LoadFailed as error:
            self._forget(command.launch)
            return UpstreamFailed(command.model, command.launch, error)
        except Exception:
            self._forget(command.launch)
            raise
        del self._starting[command.launch]
        self._running[command.launch] = server
        server.describe(self._description(command, server))
        return UpstreamReady(command.model, command.launch, server.upstream)

    def _description(self, command: StartUpstream, server: RunningServer) -> ServerDescription:
        return ServerDescription(
            model=command.model,
            launch=command.launch,
            pid=server.upstream.pid or 0,
            address=server.upstream.address,
            port=server.port,
            check_endpoint=fill(command.spec.recipe, server.port or 0).check_endpoint,
            fingerprint=fingerprint_of(command.spec),
            gpus=command.gpus,
            ready_at=time.time(),
            server=server.header,
            conversations=self.conversations.kept_in(command.launch),
            listener=server.upstream.listener,
            api_key=server.upstream.api_key,
        )

    # Servers of another hotseat process

    async def take(self, connection: socket.socket) -> None:
        """Take the servers of another hotseat process; this one has started none so far. CannotTake: it may not.

        `connection` is of `Guard.offer` in the other process, or of `guard_grace.connect`.
        """
        processes = await self.guard.take(connection)
        self._taken = TakenServers(processes, were_orphaned=self.guard.was_orphaned)

    async def taken(self) -> list[ServerDescription]:
        """The servers that were handed over and can be adopted: they are ready or sleep, and their process lives.

        If their hotseat was killed, each must answer its health check within seconds.
        """
        return await self._taken.usable()

    def adopt(self, launch: LaunchId, description: ServerDescription, spec: ModelSpec) -> UpstreamReady:
        """Treat one of `taken` as if this supervisor had started it. `spec` must have the same fingerprint."""
        taken, output = self._taken.claim(description), self.outputs.of(spec.name)
        filled, environ = self.environment.on_gpus(spec, description.gpus)
        if description.api_key:
            environ |= dict.fromkeys(KEYS_VARIABLES.values(), description.api_key)
        server = adopt(filled, environ, self.guard, self._ports, output, taken, description)
        server.describe(replace(description, launch=launch))
        self._running[launch] = server
        self.conversations.adopt(launch, spec, environ, description)
        if description.context is not None:
            self._contexts[spec.name] = description.context
        return UpstreamReady(spec.name, launch, server.upstream)

    def end_unadopted(self) -> asyncio.Future[Any]:
        """End all else that was handed over. It has the memory that a new server may need, so starts wait for it."""
        self._taken.end_unclaimed()
        return self._taken.ended()

    # Ready servers

    async def watch(self, ready: UpstreamReady) -> UpstreamExited:
        """Return when no process of the launch is left."""
        end = await self._running[ready.launch].ended()
        self._forget(ready.launch)
        return UpstreamExited(ready.model, ready.launch, end.exit_status, end.output, end.hint)

    def _forget(self, launch: LaunchId) -> None:
        self._starting.pop(launch, None)
        self._running.pop(launch, None)
        self.conversations.end(launch)

    async def ask_slots(self, ready: UpstreamReady) -> SlotsLearned | None:
        """The server's slots, if it is a llama-server; others are not asked."""
        server = self._running.get(ready.launch)
        if server is None or server.header != LLAMA_SERVER:
            return None
        slots, context = await props_of(ready.upstream.address, server.api_key)
        if context is not None:
            self._contexts[ready.model] = context
        if server.description:
            server.correct(replace(server.description, slots=slots, context=context))
        return None if slots is None else SlotsLearned(ready.model, ready.launch, slots)

    async def own_metrics(self, launch: LaunchId) -> str | None:
        """The page of metrics of a ready server; None: it has none, or has ended."""
        server = self._running.get(launch)
        return await metrics_of(server.upstream.address, server.api_key) if server else None

    async def stop(self, command: StopUpstream) -> None:
        """End the launch, by force if needed. Safe to call twice, and for a launch that has ended."""
        if launch := self._starting.get(command.launch) or self._running.get(command.launch):
            await launch.end(command.unload_timeout_s)

    def limit_stops(self, catalog: Catalog) -> None:
        """Tell the guard the unload timeouts that are configured now."""
        for server in self._all():
            if spec := catalog.models.get(server.model):
                server.limit_stop(spec.unload_timeout_s)

    async def put_to_sleep(self, command: PutToSleep) -> UpstreamAsleep | SleepFailed | None:
        server = self._running.get(command.launch)
        return await running_server.put_to_sleep(server, command) if server else None

    async def wake_up(self, command: WakeUp) -> UpstreamAwake | WakeFailed | None:
        server = self._running.get(command.launch)
        return await running_server.wake_up(server, command) if server else None

    async def save_conversations(self, command: SaveConversations) -> ConversationsSaved | None:
        server, kept = self._running.get(command.launch), self.conversations.of_server(command.launch)
        return await transfers.save(server, kept, command) if server else None

    async def restore_conversations(self, command: RestoreConversations) -> ConversationsRestored | None:
        server, kept = self._running.get(command.launch), self.conversations.of_server(command.launch)
        return await transfers.restore(server, kept, command) if server else None

    async def read_ahead(self, command: ReadAhead) -> None:
        """Read the model's files into the page cache; return when done, or when its server starts."""
        await self._read_ahead.read(command.model, command.spec.recipe.argv)
