"""Keeps the conversations of all models: gives their servers a folder, and knows what is in it."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.files import LEFT_FREE, Kept, SavedFiles
from hotseat.model_servers.conversations.of_server import ServerConversations
from hotseat.model_servers.conversations.start import ServerStart
from hotseat.model_servers.launch_env import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from hotseat.catalog.spec import ModelSpec
    from hotseat.identifiers import Bytes, ModelName

log = logging.getLogger(__name__)

FOLDER = "LLAMA_ARG_SLOT_SAVE_PATH"


class Conversations:
    def __init__(self, files: SavedFiles) -> None:
        self._files = files

    def kept(self, model: ModelName) -> Kept:
        """How many conversations of a model are on disk, and their size."""
        return self._files.kept(model)

    def trim(self) -> None:
        """Remove what exceeds the budget."""
        self._files.sweep_later()

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


@asynccontextmanager
async def open_conversations(
    parent: Path, budget: Callable[[], Bytes], left_free: Bytes = LEFT_FREE
) -> AsyncIterator[Conversations]:
    """`parent` has one folder for each running hotseat; at the end ours is removed."""
    files = SavedFiles(parent, budget, left_free=left_free)
    await files.remove_leftovers()
    try:
        yield Conversations(files)
    finally:
        await files.aclose()
