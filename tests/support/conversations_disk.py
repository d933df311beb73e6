"""Saved conversations on a disk with a budget and a clock that the test sets."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.waiting import come_true

from hotseat.identifiers import ModelName
from hotseat.model_servers.conversations.files import SavedFiles
from hotseat.model_servers.conversations.manager import Conversations
from hotseat.model_servers.conversations.saved_file import Origin
from hotseat.model_servers.conversations.saves_in_progress import SavesInProgress
from hotseat.model_servers.conversations.slots_api import Moved

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.model_servers.conversations.part import Part
    from hotseat.model_servers.conversations.saved_file import SavedFile

MIB = 1 << 20
QWEN = Origin(ModelName("qwen"), "f00", weight=MIB)
LARGER = Origin(ModelName("gemma"), "b00", weight=4 * MIB)


class ConversationsDisk:
    def __init__(self, parent: Path) -> None:
        self.budget, self.now = 1000 * MIB, 0.0
        self.files = SavedFiles(parent, lambda: self.now)
        self.saves = SavesInProgress(self.files, lambda: self.budget, left_free=0)
        self.conversations = Conversations(self.files, self.saves)

    @property
    def on_disk(self) -> list[str]:
        return sorted(path.name for path in self.files.open().iterdir() if path.name != "lock")

    async def save(
        self, ids: list[int], origin: Origin = QWEN, size: int = MIB, earlier: SavedFile | None = None
    ) -> SavedFile:
        part = await self.saves.begin(origin, len(ids))
        try:
            return await self.finish(part, ids, size, earlier)
        finally:
            self.saves.abandon(part)

    async def finish(self, part: Part, ids: list[int], size: int = MIB, earlier: SavedFile | None = None) -> SavedFile:
        self.write(part, ids, size)
        return await self.saves.finish(part, Moved(len(ids), size), self.now, earlier)

    async def save_unknown(self) -> SavedFile:
        """A conversation of three tokens in a format that hotseat cannot read."""
        part = await self.saves.begin(QWEN, 3)
        (self.files.open() / part.name).write_bytes(b"unknown")
        return await self.saves.finish(part, Moved(3, 7), self.now)

    def write(self, part: Part, ids: list[int], size: int = MIB) -> None:
        """As llama-server does."""
        data = struct.pack(f"<IIIiII{len(ids)}iI", 0x67677371, 4, len(ids) + 4, -1, 1, len(ids), *ids, 0)
        (self.files.open() / part.name).write_bytes(data.ljust(size, b"\0"))

    async def has_only(self, *files: SavedFile) -> None:
        await come_true(lambda: self.on_disk == sorted(file.name for file in files))
