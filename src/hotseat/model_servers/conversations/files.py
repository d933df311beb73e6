"""The saved conversations. Which files there are is known in memory only, so nothing has to be read back after a crash;
a restart hands it over.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.model_servers.conversations.folder import Folder
from hotseat.model_servers.conversations.handover import FileRecord
from hotseat.model_servers.conversations.saved_file import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from hotseat.identifiers import Instant
    from hotseat.model_servers.conversations.saved_file import Origin, SavedFile


class SavedFiles:
    def __init__(self, parent: Path, clock: Callable[[], Instant] = time.monotonic) -> None:
        self.folder, self._clock = Folder(parent), clock
        self._files: dict[str, SavedFile] = {}

    @property
    def now(self) -> Instant:
        return self._clock()

    def open(self) -> Path:
        """The folder for the servers; OSError if it cannot be created."""
        earlier = self.folder.shared
        path = self.folder.opened()
        if self.folder.shared != earlier:  # the first one, or the earlier one was removed by somebody else
            self._files.clear()
        return path

    def __iter__(self) -> Iterator[SavedFile]:
        """Of all there are now: they may be dropped meanwhile."""
        return iter([*self._files.values()])

    def named(self, name: str) -> SavedFile | None:
        return self._files.get(name)

    def usable(self, origin: Origin) -> list[SavedFile]:
        """The last used first; of those saved together, the longest."""
        found = [file for file in self if file.origin == origin]
        return sorted(found, key=lambda file: (file.used_at, file.tokens), reverse=True)

    def is_whole(self, file: SavedFile) -> bool:
        return size_of(self.folder.path(file.name)) == file.size

    def add(self, file: SavedFile) -> None:
        self._files[file.name] = file

    def drop(self, files: Iterable[SavedFile]) -> asyncio.Future[None]:
        """Forget them at once. The result can be awaited: then they are removed."""
        return self.folder.remove_later([file.name for file in files if self._files.pop(file.name, None)])

    def drop_outdated(self, origin: Origin) -> None:
        """Remove what this model's servers saved when they were started differently."""
        self.drop(file for file in self if file.origin.model == origin.model and file.origin != origin)

    # Another hotseat process

    def records(self) -> tuple[FileRecord, ...]:
        """Of all files, for the next process."""
        return tuple(FileRecord.of(file, self.now) for file in self)

    def take(self, path: Path, lock: int | None, records: Iterable[FileRecord]) -> bool:
        """Go on with the folder and the files of another process. Reads the files: not for the event loop."""
        if not self.folder.take(path, lock):
            return False
        for record in records:
            with suppress(OSError):
                self.add(record.read(path, self.now))
        return True

    def leave(self) -> None:
        """Another process goes on with the files, or will."""
        self._files.clear()
        self.folder.leave()

    async def aclose(self) -> None:
        self._files.clear()
        await asyncio.to_thread(self.folder.close)
