"""A conversation in a file: what llama-server writes for one slot, and the tokens at its beginning."""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hotseat.identifiers import Bytes, Instant, ModelName, Seconds

MAGIC = b"qsgg"
"""A number of four bytes, the lowest first."""
HEAD = struct.Struct("<4s4xI")
"""Magic, version, count of words; the words follow, most of them tokens."""
WORD: Bytes = 4
FRAME = 4
"""Words around the tokens."""
COVERED = 0.8
"""The share of another conversation's tokens that a conversation must begin with to replace it."""
HOUR_S: Seconds = 3600.0


@dataclass(frozen=True, slots=True)
class Origin:
    """The server whose slots are saved; only one with the same fingerprint can use them."""

    model: ModelName
    fingerprint: str
    weight: Bytes = field(compare=False)
    """Of the model's files: computing a token anew takes time in proportion to it."""

    def worth(self, tokens: int, size: Bytes, age_s: Seconds) -> float:
        """Tokens × weight, which is the work saved, per byte on disk, divided by the hours since the last use plus one:
        the file with the least is removed first.
        """
        return tokens * self.weight / max(size, 1) / (1 + age_s / HOUR_S)


@dataclass(frozen=True, slots=True)
class SavedFile:
    name: str
    origin: Origin
    tokens: int
    token_ids: bytes
    """As in the file; empty if its format is unknown."""
    size: Bytes
    used_at: Instant

    def worth(self, now: Instant) -> float:
        return self.origin.worth(self.tokens, self.size, now - self.used_at)

    def replaces(self, other: SavedFile, earlier: SavedFile | None) -> bool:
        """`earlier` was restored into the slot that this one was saved from; of an unknown format, only that tells
        that both are one conversation.
        """
        return self.covers(other) if other.token_ids else other == earlier

    def covers(self, other: SavedFile) -> bool:
        """Whether a server that has this one computes little of the other anew.

        A conversation that went on does so, although its last answer may have changed: clients leave out reasoning.
        """
        if self.origin != other.origin:
            return False
        most = math.ceil(COVERED * other.tokens) * WORD
        return self.token_ids[:most] == other.token_ids[:most]


def least_worth(files: Iterable[SavedFile], lack: Bytes, than: float, now: Instant) -> tuple[list[SavedFile], Bytes]:
    """The files that together have the missing bytes, all worth less `than` this; and what is still missing."""
    chosen: list[SavedFile] = []
    for file in sorted(files, key=lambda file: file.worth(now)):
        if lack <= 0 or file.worth(now) > than:
            break
        chosen.append(file)
        lack -= file.size
    return chosen, lack


def size_of(path: Path) -> Bytes | None:
    """None: there is no such file."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def token_ids_in(path: Path, tokens: int) -> bytes:
    """The tokens at its beginning; empty if they are not as many, or mixed with images."""
    with path.open("rb") as file:
        head = file.read(HEAD.size)
        magic, words = HEAD.unpack(head.ljust(HEAD.size, b"\0"))
        if magic != MAGIC or not tokens <= words <= tokens + FRAME:
            return b""
        data = file.read(words * WORD)
    if len(data) != words * WORD:
        return b""
    return data if words == tokens else _unframed(data, tokens)


def _unframed(data: bytes, tokens: int) -> bytes:
    """Newer builds write -1, a version and the count before the tokens, and the number of images after them."""
    marker, _, count = struct.unpack_from("<iII", data)
    *_, images = struct.unpack_from("<I", data, len(data) - WORD)
    is_text = (marker, count, images, len(data)) == (-1, tokens, 0, (tokens + FRAME) * WORD)
    return data[3 * WORD : -WORD] if is_text else b""
