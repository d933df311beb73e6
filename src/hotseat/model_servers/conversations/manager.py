"""Keeps the conversations of all models: gives their servers a folder, and knows what is in it."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hotseat.model_servers.adoption import KeptIn
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.handover import HandedConversations
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.model_servers.conversations.saves_in_progress import LEFT_FREE, SavesInProgress
from hotseat.model_servers.conversations.start import ServerStart
from hotseat.model_servers.launch_processes import environment
from hotseat.threads import look_at_disk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, LaunchId, ModelName
    from hotseat.model_servers.adoption import ServerDescription
    from hotseat.model_servers.conversations.handover import SlotsRecord

log = logging.getLogger(__name__)

FOLDER = "LLAMA_ARG_SLOT_SAVE_PATH"


class Kept(NamedTuple):
    conversations: int = 0
    size: Bytes = 0


class Conversations:
    def __init__(self, files: SavedFiles, saves: SavesInProgress) -> None:
        self._files, self._saves = files, saves
        self._servers: dict[LaunchId, ServerConversations] = {}
        """That save theirs, from start to exit."""
        self._slots: dict[LaunchId, SlotsRecord] = {}
        """Of servers that may be adopted."""

    def kept(self, model: ModelName) -> Kept:
        """How many conversations of a model are on disk, and their size."""
        sizes = [file.size for file in self._files if file.origin.model == model]
        return Kept(len(sizes), sum(sizes))

    def trim(self) -> None:
        """Remove what exceeds the budget."""
        self._saves.sweep_later()

    def forget(self, models: Container[ModelName]) -> None:
        """Remove all that was saved of these models, and do not keep what their servers are writing."""
        self._files.drop(file for file in self._files if file.origin.model in models)
        self._saves.forget(models)

    # Servers

    async def start(self, launch: LaunchId, spec: ModelSpec, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that a server gets which is about to start. `environ` is hotseat's, which it inherits."""
        if not spec.keeps_conversations:
            return {}
        env = environment(environ, spec.recipe.env)
        try:
            start = await look_at_disk(spec.name, partial(ServerStart.of, spec, env))
            folder = str(self._files.open())
        except OSError as problem:
            log.warning("conversations cannot be saved model=%s error=%r", spec.name, str(problem))
            return {}
        self._servers[launch] = ServerConversations(self._files, self._saves, start, folder)
        return {FOLDER: folder}

    def of_server(self, launch: LaunchId) -> ServerConversations | None:
        """None: it saves none."""
        return self._servers.get(launch)

    def kept_in(self, launch: LaunchId) -> KeptIn | None:
        """Where a server saves them; None: it saves none."""
        server = self._servers.get(launch)
        return KeptIn(server.folder, server.start.basis, server.start.weight) if server else None

    def end(self, launch: LaunchId) -> None:
        """The process of a server is gone: what it has written since the last save is removed."""
        if self._servers.pop(launch, None):
            self._saves.sweep_later()

    # Another hotseat process

    def handed(self) -> tuple[HandedConversations, int] | None:
        """What the next process must know, and the descriptor of the folder's lock; None: there is no folder."""
        if self._files.folder.shared is None:
            return None
        folder, lock = self._files.folder.shared
        servers = tuple(server.record(launch) for launch, server in self._servers.items())
        return HandedConversations(str(folder), self._files.records(), servers), lock

    async def take(self, handed: HandedConversations, lock: int) -> None:
        """Go on with the folder of the process that this one replaces."""
        if await asyncio.to_thread(self._files.take, Path(handed.folder), lock, handed.files):
            for file in handed.files:
                self._saves.learn(file.fingerprint, file.tokens, file.size)
            self._slots = {server.launch: server for server in handed.servers}
        else:
            os.close(lock)

    def take_orphaned(self, servers: Iterable[ServerDescription]) -> None:
        """Go on with the folder of a process that was killed. What it had saved is unknown, and is removed."""
        folders = [each.conversations.folder for each in servers if each.conversations]
        if folders and self._files.take(Path(folders[-1]), None, ()):
            self._saves.sweep_later()

    def adopt(
        self, launch: LaunchId, spec: ModelSpec, environ: Mapping[str, str], description: ServerDescription
    ) -> None:
        """A server that an earlier process has started goes on, if it saves into our folder."""
        shared = self._files.folder.shared
        folder = shared[0] if shared else None
        kept = description.conversations
        if not kept or kept.folder != str(folder):
            return
        env = environment(environ, spec.recipe.env)
        start = ServerStart(spec.name, spec.recipe, env, kept.basis, kept.weight)
        server = self._servers[launch] = ServerConversations(self._files, self._saves, start, str(folder))
        if record := self._slots.get(launch):
            server.remember(record)

    async def remove_leftovers(self, models: Container[ModelName]) -> None:
        """Remove what earlier processes have saved: of other `models`, and in folders that nobody uses.

        For a start, once the folder of adopted servers is ours.
        """
        self._files.drop(file for file in self._files if file.origin.model not in models)
        await asyncio.to_thread(self._files.folder.remove_leftovers)

    def leave(self) -> None:
        """Another process has the servers, or will have them, and goes on with their folder."""
        self._files.leave()


@asynccontextmanager
async def open_conversations(
    parent: Path, budget: Callable[[], Bytes], left_free: Bytes = LEFT_FREE
) -> AsyncIterator[Conversations]:
    """`parent` has one folder for each running hotseat; at the end ours is removed, unless another process has it."""
    files = SavedFiles(parent)
    try:
        yield Conversations(files, SavesInProgress(files, budget, left_free))
    finally:
        await files.aclose()
