"""What the next hotseat process must know about saved conversations. The lock of their folder goes with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from hotseat.identifiers import LaunchId
from hotseat.model_servers.conversations.saved_file import Origin, SavedFile, token_ids_in
from hotseat.model_servers.conversations.slots_api import Slot

if TYPE_CHECKING:
    from pathlib import Path

    from hotseat.identifiers import Bytes, Instant, ModelName, Seconds


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A saved file; the tokens in it are read again."""

    name: str
    model: ModelName
    fingerprint: str
    weight: Bytes
    tokens: int
    size: Bytes
    unused_s: Seconds

    @classmethod
    def of(cls, file: SavedFile, now: Instant) -> FileRecord:
        origin = file.origin
        return cls(
            file.name, origin.model, origin.fingerprint, origin.weight, file.tokens, file.size, now - file.used_at
        )

    def read(self, folder: Path, now: Instant) -> SavedFile:
        """OSError: it is not there."""
        origin = Origin(self.model, self.fingerprint, self.weight)
        token_ids = token_ids_in(folder / self.name, self.tokens)
        return SavedFile(self.name, origin, self.tokens, token_ids, self.size, now - self.unused_s)


@dataclass(frozen=True, slots=True)
class SlotsRecord:
    """What was restored into the slots of a server."""

    launch: LaunchId
    restored: tuple[Slot, ...]
    files: dict[int, str]
    """The name of the file that was restored into each slot."""


@dataclass(frozen=True, slots=True)
class HandedConversations:
    folder: str
    files: tuple[FileRecord, ...] = ()
    servers: tuple[SlotsRecord, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_handed(said: Any) -> HandedConversations | None:
    """What the previous process said; None: nothing that can be understood."""
    try:
        files = tuple(_file(each) for each in said["files"])
        return HandedConversations(str(said["folder"]), files, tuple(_slots(each) for each in said["servers"]))
    except (LookupError, TypeError, ValueError):
        return None


def _file(said: Any) -> FileRecord:
    return FileRecord(**{each.name: said[each.name] for each in fields(FileRecord)})


def _slots(said: Any) -> SlotsRecord:
    files = {int(slot): str(name) for slot, name in said["files"].items()}
    return SlotsRecord(LaunchId(said["launch"]), tuple(Slot(*each) for each in said["restored"]), files)
