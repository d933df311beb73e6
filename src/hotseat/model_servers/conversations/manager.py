"""Keeps the conversations of all models: gives their servers a folder, and knows what is in it."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.files import LEFT_FREE, Kept, SavedFiles
from hotseat.model_servers.conversations.handover import HandedConversations
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.model_servers.conversations.start import ServerStart
from hotseat.model_servers.launch_env import environment
from hotseat.model_servers.server_description import KeptIn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, LaunchId, ModelName
    from hotseat.model_servers.conversations.handover import SlotsRecord
    from hotseat.model_servers.server_description import ServerDescription

log = logging.getLogger(__name__)

FOLDER = "LLAMA_ARG_SLOT_SAVE_PATH"


class Conversations:
    def __init__(self, files: SavedFiles) -> None:
        self._files = files
        self._servers: dict[LaunchId, ServerConversations] = {}
        """That save theirs, from start to exit."""
        self._slots: dict[LaunchId, SlotsRecord] = {}
        """Of servers that may be adopted."""

    def kept(self, model: ModelName) -> Kept:
        """How many conversations of a model are on disk, and their size."""
        return self._files.kept(model)

    def trim(self) -> None:
        """Remove what exceeds the budget."""
        self._files.sweep_later()

    def forget(self, models: Container[ModelName]) -> None:
        """Remove all that was saved of these models: nothing will use it."""
        self._files.forget(models)

    # Servers

    def start(self, launch: LaunchId, spec: ModelSpec, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of a server that is about to start. `environ` is hotseat's, which it inherits."""
        if not spec.keeps_conversations:
            return {**environ}
        env = environment(environ, spec.recipe.env)
        try:
            folder = str(self._files.open())
        except OSError as problem:
            log.warning("conversations cannot be saved model=%s error=%r", spec.name, str(problem))
            return {**environ}
        self._servers[launch] = ServerConversations(self._files, ServerStart.of(spec, env), folder)
        return {**environ, FOLDER: folder}

    def of_server(self, launch: LaunchId) -> ServerConversations | None:
        """None: it saves none."""
        return self._servers.get(launch)

    def kept_in(self, launch: LaunchId) -> KeptIn | None:
        """Where a server saves them; None: it saves none."""
        server = self._servers.get(launch)
        return KeptIn(server.folder, server.start.basis) if server else None

    def end(self, launch: LaunchId) -> None:
        """The process of a server is gone: what it has written since the last save is removed."""
        if self._servers.pop(launch, None):
            self._files.sweep_later()

    # Another hotseat process

    def handed(self) -> tuple[HandedConversations, int] | None:
        """What the next process must know, and the descriptor of the folder's lock; None: there is no folder."""
        if self._files.shared is None:
            return None
        folder, lock = self._files.shared
        servers = tuple(server.record(launch) for launch, server in self._servers.items())
        return HandedConversations(str(folder), self._files.records(), servers), lock

    async def take(self, handed: HandedConversations, lock: int) -> None:
        """Go on with the folder of the process that this one replaces."""
        if await asyncio.to_thread(self._files.take, Path(handed.folder), lock, handed.files):
            self._slots = {server.launch: server for server in handed.servers}
        else:
            os.close(lock)

    def take_orphaned(self, servers: Iterable[ServerDescription]) -> None:
        """Go on with the folder of a process that was killed. What it had saved is unknown, and is removed."""
        folders = [each.conversations.folder for each in servers if each.conversations]
        if folders and self._files.take(Path(folders[-1]), None, ()):
            self._files.sweep_later()

    def adopt(
        self, launch: LaunchId, spec: ModelSpec, environ: Mapping[str, str], description: ServerDescription
    ) -> None:
        """A server that an earlier process has started goes on, if it saves into our folder."""
        folder = self._files.shared[0] if self._files.shared else None
        if not description.conversations or description.conversations.folder != str(folder):
            return
        start = ServerStart.earlier(spec, environment(environ, spec.recipe.env), description.conversations.basis)
        server = self._servers[launch] = ServerConversations(self._files, start, str(folder))
        if record := self._slots.get(launch):
            server.remember(record)

    async def remove_leftovers(self, models: Container[ModelName]) -> None:
        """Remove what earlier processes have saved: of other `models`, and in folders that nobody uses.

        For a start, once the folder of adopted servers is ours.
        """
        self._files.keep_only(models)
        await self._files.remove_leftovers()

    def leave(self) -> None:
        """Another process has the servers, or will have them, and goes on with their folder."""
        self._files.leave()


@asynccontextmanager
async def open_conversations(
    parent: Path, budget: Callable[[], Bytes], left_free: Bytes = LEFT_FREE
) -> AsyncIterator[Conversations]:
    """`parent` has one folder for each running hotseat; at the end ours is removed, unless another process has it."""
    files = SavedFiles(parent, budget, left_free=left_free)
    try:
        yield Conversations(files)
    finally:
        await files.aclose()
