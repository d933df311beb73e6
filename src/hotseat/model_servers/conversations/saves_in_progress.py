"""Conversations that servers are writing, and what all conversations together may take of the disk.

A server writes under a temporary name, and the file gets its name when it is whole: whatever else is in the folder is
removed.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.part import NotKept, Part
from hotseat.model_servers.conversations.saved_file import SavedFile, least_worth

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from hotseat.identifiers import Bytes, Instant, ModelName
    from hotseat.model_servers.conversations.files import SavedFiles
    from hotseat.model_servers.conversations.saved_file import Origin
    from hotseat.model_servers.conversations.slots_api import Moved

LEFT_FREE: Bytes = 1 << 30
"""Of the disk, for everything else."""
USUAL_TOKEN: Bytes = 64 << 10
"""Bytes per token before the first conversation of a model is written. If it has more, that is noticed afterwards."""


class SavesInProgress:
    def __init__(self, files: SavedFiles, budget: Callable[[], Bytes], left_free: Bytes = LEFT_FREE) -> None:
        """`budget` is what all files together may take; it may change. So much of the disk is `left_free`."""
        self._files, self._budget, self._left_free = files, budget, left_free
        self._parts: dict[str, Part] = {}
        """By name."""
        self._token_sizes: dict[str, float] = {}
        """Bytes per token as written last, by fingerprint."""

    async def begin(self, origin: Origin, tokens: int) -> Part:
        """For a conversation of so many tokens; NotKept if it may not be written."""
        expected = int(self._token_sizes.get(origin.fingerprint, USUAL_TOKEN) * tokens)
        victims, lack = self._least_worth(expected, origin.worth(tokens, expected, 0.0))
        if lack > 0:
            budget = self._budget() >> 20
            raise NotKept(f"{expected >> 20} MiB do not fit into the {budget} MiB for saved conversations")
        await self._files.drop(victims)
        self._check_disk(expected)
        part = Part(origin, expected)
        self._parts[part.name] = part
        return part

    async def finish(self, part: Part, moved: Moved, used_at: Instant, earlier: SavedFile | None = None) -> SavedFile:
        """Keep what was written, instead of other files that it replaces; NotKept if it is not whole.

        `earlier` was restored into the slot that was saved now.
        """
        token_ids = await self._make_final(part, moved)
        file = SavedFile(part.final_name, part.origin, moved.tokens, token_ids, moved.size, used_at)
        replaced = [other for other in self._files if file.replaces(other, earlier)]
        self._files.add(file)
        del self._parts[part.name]
        self.learn(part.origin.fingerprint, file.tokens, file.size)
        self._files.drop(replaced)
        self._files.drop(self._over_budget())
        if self._files.named(file.name) is None:
            budget = self._budget() >> 20
            raise NotKept(f"{file.size >> 20} MiB did not fit into the {budget} MiB for saved conversations")
        return file

    def abandon(self, part: Part) -> None:
        """Remove what was written of it, unless it was kept. Does not wait for the disk."""
        if self._parts.pop(part.name, None):
            self._files.folder.remove_later([part.name, part.final_name])

    def forget(self, models: Container[ModelName]) -> None:
        """What servers of these models are writing is not kept."""
        for part in [part for part in self._parts.values() if part.origin.model in models]:
            self.abandon(part)

    def learn(self, fingerprint: str, tokens: int, size: Bytes) -> None:
        """What a conversation took on disk: the next one of such a server is expected to be like it."""
        self._token_sizes[fingerprint] = size / tokens

    def sweep_later(self) -> None:
        """Remove what exceeds the budget, and what is no conversation: parts of servers that are gone, other files."""
        self._files.drop(self._over_budget())
        asyncio.get_running_loop().run_in_executor(None, self._remove_unknown)

    async def _make_final(self, part: Part, moved: Moved) -> bytes:
        try:
            return await asyncio.to_thread(part.make_final, self._files.folder.path(part.name), moved)
        finally:
            if part.name not in self._parts:
                raise NotKept("what was written is not wanted any more")

    def _check_disk(self, needed: Bytes) -> None:
        path = self._files.open()
        if needed > shutil.disk_usage(path).free - self._left_free:
            free = self._left_free >> 20
            raise NotKept(f"{needed >> 20} MiB do not fit on the disk of {path}, of which {free} MiB stay free")

    def _remove_unknown(self) -> None:
        # The list is made first: what is in progress is known before its file appears.
        names = self._files.folder.names()
        # A finished file is known as kept before it is no longer in progress: so this order misses none.
        written = {name for part in [*self._parts.values()] for name in (part.name, part.final_name)}
        self._files.folder.remove(name for name in names if name not in written and not self._files.named(name))

    def _over_budget(self) -> list[SavedFile]:
        """What must go because a file became larger than expected, or the budget smaller."""
        return self._least_worth(0, float("inf"))[0]

    def _least_worth(self, needed: Bytes, than: float) -> tuple[list[SavedFile], Bytes]:
        """The files to remove for so many bytes, all worth less `than` this; and how many bytes are missing then."""
        taken = sum(file.size for file in self._files)
        lack = taken + sum(part.expected for part in self._parts.values()) + needed - self._budget()
        return least_worth(self._files, lack, than, self._files.now)
