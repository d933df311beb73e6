"""The saved conversations and what they may take of the disk.

Which files there are is known in memory only, so nothing has to be read back after a crash; a restart hands it over.
A server writes under a temporary name, and the file gets its name when it is whole: whatever else is in the folder is
removed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from hotseat.model_servers.conversations.folder import Folder
from hotseat.model_servers.conversations.handover import FileRecord
from hotseat.model_servers.conversations.saved_file import SavedFile, least_worth, size_of, token_ids_in

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from pathlib import Path

    from hotseat.identifiers import Bytes, Instant, ModelName
    from hotseat.model_servers.conversations.saved_file import Origin
    from hotseat.model_servers.conversations.slots_api import Moved

LEFT_FREE: Bytes = 1 << 30
"""Of the disk, for everything else."""
USUAL_TOKEN: Bytes = 64 << 10
"""Bytes per token before the first conversation of a model is written. If it has more, that is noticed afterwards."""
PART = ".part"


class NotKept(Exception):
    """Why a conversation is not kept, as a sentence."""


class Kept(NamedTuple):
    conversations: int = 0
    size: Bytes = 0


class InProgress(NamedTuple):
    """What a server writes, or what gets its name."""

    model: ModelName
    expected: Bytes


class SavedFiles:
    def __init__(
        self,
        parent: Path,
        budget: Callable[[], Bytes],
        clock: Callable[[], Instant] = time.monotonic,
        left_free: Bytes = LEFT_FREE,
    ) -> None:
        """`budget` is what all files together may take; it may change. So much of the disk is `left_free`."""
        self._folder, self._budget, self._clock, self._left_free = Folder(parent), budget, clock, left_free
        self._path: Path | None = None
        self._files: dict[str, SavedFile] = {}
        self._in_progress: dict[str, InProgress] = {}
        """By name."""
        self._token_sizes: dict[str, float] = {}
        """Bytes per token as written last, by fingerprint."""

    @property
    def now(self) -> Instant:
        return self._clock()

    def open(self) -> Path:
        """The folder for the servers; OSError if it cannot be created."""
        path = self._folder.opened()
        if path != self._path:  # the first one, or the earlier one was removed by somebody else
            self._files.clear()
        self._path = path
        return path

    def kept(self, model: ModelName) -> Kept:
        sizes = [file.size for file in self._files.values() if file.origin.model == model]
        return Kept(len(sizes), sum(sizes))

    def usable(self, origin: Origin) -> list[SavedFile]:
        """The last used first; of those saved together, the longest."""
        found = [file for file in self._files.values() if file.origin == origin]
        return sorted(found, key=lambda file: (file.used_at, file.tokens), reverse=True)

    def is_whole(self, file: SavedFile) -> bool:
        return size_of(self._folder.path(file.name)) == file.size

    # Write

    async def begin(self, origin: Origin, tokens: int) -> str:
        """A temporary name for a conversation of so many tokens; NotKept if it may not be written."""
        expected = int(self._token_sizes.get(origin.fingerprint, USUAL_TOKEN) * tokens)
        victims, lack = self._least_worth(expected, origin.worth(tokens, expected, 0.0))
        if lack > 0:
            budget = self._budget() >> 20
            raise NotKept(f"{expected >> 20} MiB do not fit into the {budget} MiB for saved conversations")
        await self.drop(victims)
        self._check_disk(expected)
        name = f"{secrets.token_hex(8)}{PART}"
        self._in_progress[name] = InProgress(origin.model, expected)
        return name

    async def finish(
        self, part: str, origin: Origin, moved: Moved, used_at: Instant, earlier: SavedFile | None = None
    ) -> SavedFile:
        """Keep what was written, instead of other files that it replaces; NotKept if it is not whole.

        `earlier` was restored into the slot that was saved now.
        """
        name = f"{origin.fingerprint}-{part.removesuffix(PART)}.slot"
        self._in_progress[name] = InProgress(origin.model, 0)
        try:
            token_ids = await self._rename(part, name, moved)
            file = SavedFile(name, origin, moved.tokens, token_ids, moved.size, used_at)
            replaced = [other for other in self._files.values() if file.replaces(other, earlier)]
            self._files[name] = file
        finally:
            self._in_progress.pop(name, None)
        self._in_progress.pop(part, None)
        self._token_sizes[origin.fingerprint] = file.size / file.tokens
        self.drop(replaced)
        self.drop(self._over_budget())
        if name not in self._files:
            raise NotKept(
                f"{file.size >> 20} MiB did not fit into the {self._budget() >> 20} MiB for saved conversations"
            )
        return file

    def abandon(self, part: str) -> None:
        """Remove what was written under a temporary name, unless it was kept. Does not wait for the disk."""
        if self._in_progress.pop(part, None) is not None:
            self._remove([part])

    async def _rename(self, part: str, name: str, moved: Moved) -> bytes:
        try:
            return await asyncio.to_thread(self._make_final, part, name, moved)
        except FileNotFoundError as removed:
            raise NotKept("what was written has been removed") from removed
        finally:
            self._check_wanted(part)

    def _check_wanted(self, part: str) -> None:
        if part not in self._in_progress:
            raise NotKept("what was written is not wanted any more")

    def _make_final(self, part: str, name: str, moved: Moved) -> bytes:
        path = self._folder.path(part)
        size = size_of(path) or 0
        if moved.tokens <= 0 or not 0 < moved.size == size:
            raise NotKept(f"the server wrote {moved.size} bytes, of which {size} are in its file; is the disk full?")
        os.chmod(path, 0o600)
        token_ids = token_ids_in(path, moved.tokens)
        os.rename(path, self._folder.path(name))
        return token_ids

    def _check_disk(self, needed: Bytes) -> None:
        if needed > shutil.disk_usage(self.open()).free - self._left_free:
            free = self._left_free >> 20
            raise NotKept(f"{needed >> 20} MiB do not fit on the disk of {self._path}, of which {free} MiB stay free")

    # Remove

    def drop(self, files: Iterable[SavedFile]) -> asyncio.Future[None]:
        """Forget them at once. The result can be awaited: then they are removed."""
        return self._remove([file.name for file in files if self._files.pop(file.name, None)])

    def forget(self, models: Container[ModelName]) -> None:
        """Remove all that servers of these models have saved; what they are writing is not kept."""
        self.drop(file for file in [*self._files.values()] if file.origin.model in models)
        for name in [name for name, part in self._in_progress.items() if part.model in models]:
            self.abandon(name)

    def drop_outdated(self, origin: Origin) -> None:
        """Remove what this model's servers saved when they were started differently."""
        files = [*self._files.values()]
        self.drop(file for file in files if file.origin.model == origin.model and file.origin != origin)

    def sweep_later(self) -> None:
        """Remove what exceeds the budget, and what is no conversation: parts of servers that are gone, other files."""
        self.drop(self._over_budget())
        asyncio.get_running_loop().run_in_executor(None, self._remove_unknown)

    def _remove(self, names: list[str]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(None, self._folder.remove, names)

    def _remove_unknown(self) -> None:
        # The list is made first: what is in progress is known before its file appears.
        names = self._folder.names()
        # A finished file is known as kept before it is no longer in progress: so this order misses none.
        self._folder.remove(name for name in names if name not in self._in_progress and name not in self._files)

    async def remove_leftovers(self) -> None:
        await asyncio.to_thread(self._folder.remove_leftovers)

    # Another hotseat process

    def records(self) -> tuple[FileRecord, ...]:
        """Of all files, for the next process."""
        return tuple(FileRecord.of(file, self.now) for file in self._files.values())

    @property
    def shared(self) -> tuple[Path, int] | None:
        """The folder and the descriptor of its lock; None: there is no folder."""
        return self._folder.shared

    def take(self, path: Path, lock: int | None, records: Iterable[FileRecord]) -> bool:
        """Go on with the folder and the files of another process. Reads the files: not for the event loop."""
        if not self._folder.take(path, lock):
            return False
        self._path = path
        for record in records:
            with suppress(OSError):
                self._files[record.name] = record.read(path, self.now)
            self._token_sizes[record.fingerprint] = record.size / record.tokens
        return True

    def named(self, name: str) -> SavedFile | None:
        return self._files.get(name)

    def keep_only(self, models: Container[ModelName]) -> None:
        """Remove what was saved of other models."""
        self.drop(file for file in [*self._files.values()] if file.origin.model not in models)

    def leave(self) -> None:
        """Another process goes on with the files, or will."""
        self._files.clear()
        self._folder.leave()

    async def aclose(self) -> None:
        self._files.clear()
        await asyncio.to_thread(self._folder.close)

    def _over_budget(self) -> list[SavedFile]:
        """What must go because a file became larger than expected, or the budget smaller."""
        return self._least_worth(0, float("inf"))[0]

    def _least_worth(self, needed: Bytes, than: float) -> tuple[list[SavedFile], Bytes]:
        """The files to remove for so many bytes, all worth less `than` this; and how many bytes are missing then."""
        taken = sum(file.size for file in self._files.values())
        lack = taken + sum(part.expected for part in self._in_progress.values()) + needed - self._budget()
        return least_worth(self._files.values(), lack, than, self._clock())
