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

    def of_server(self, spec: ModelSpec, environ: Mapping[str, str]) -> ServerConversations | None:
        """For a server that is about to start; None: it saves none. `environ` is hotseat's, which it inherits."""
        if not spec.keeps_conversations:
            return None
        env = environment(environ, spec.recipe.env)
        try:
            folder = str(self._files.open())
        except OSError as problem:
            log.warning("conversations cannot be saved model=%s error=%r", spec.name, str(problem))
            return None
        return ServerConversations(self._files, ServerStart.of(spec, env), {FOLDER: folder})

    # Another hotseat process

    def handed(self, servers: Iterable[SlotsRecord]) -> tuple[HandedConversations, int] | None:
        """What the next process must know, and the descriptor of the folder's lock; None: there is no folder."""
        if self._files.shared is None:
            return None
        folder, lock = self._files.shared
        return HandedConversations(str(folder), self._files.records(), tuple(servers)), lock

    async def take(self, handed: HandedConversations, lock: int) -> None:
        """Go on with the folder of the process that this one replaces."""
        if await asyncio.to_thread(self._files.take, Path(handed.folder), lock, handed.files):
            self._slots = {server.launch: server for server in handed.servers}
        else:
            os.close(lock)

    def take_orphaned(self, folder: str) -> None:
        """Go on with the folder of a process that was killed. What it had saved is unknown, and is removed."""
        if self._files.take(Path(folder), None, ()):
            self._files.sweep_later()

    def of_adopted(
        self, launch: LaunchId, spec: ModelSpec, environ: Mapping[str, str], description: ServerDescription
    ) -> ServerConversations | None:
        """Of a server that an earlier process has started; None: it does not save into our folder."""
        folder = self._files.shared[0] if self._files.shared else None
        if not description.conversations or description.conversations.folder != str(folder):
            return None
        start = ServerStart.earlier(spec, environment(environ, spec.recipe.env), description.conversations.basis)
        server = ServerConversations(self._files, start, {FOLDER: str(folder)})
        if record := self._slots.get(launch):
            server.remember(record)
        return server

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
