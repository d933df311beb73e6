"""Scans folders within limits of depth, entries and time. Follows links, but visits no folder twice."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hotseat.estimates.files import PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hotseat.identifiers import Instant, Seconds

DEEPEST = 8
MOST_ENTRIES = 200_000
LONGEST_S: Seconds = 20.0

UNFINISHED = (".part", ".partial", ".incomplete", ".tmp", ".aria2", ".crdownload", ".download", ".unfinished")
"""Suffixes of files that download programs are still writing."""


class Bounds(Struct):
    """The limits of a scan, and what it has used of them."""

    deepest: int = DEEPEST
    entries: int = MOST_ENTRIES
    seconds: Seconds = LONGEST_S
    clock: Callable[[], Instant] = time.monotonic
    _ends_at: Instant | None = None

    def are_reached(self) -> bool:
        if self._ends_at is None:
            self._ends_at = self.clock() + self.seconds
        return self.entries <= 0 or self.clock() >= self._ends_at


class Sight(Struct):
    """The files a scan has found, each once under its first name."""

    ggufs: list[Path] = field(default_factory=list)
    """The first file of each split model."""
    checkpoints: list[Path] = field(default_factory=list)
    """Folders with config.json and *.safetensors."""
    whispers: list[Path] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    """Folders that could not be read, and where the scan ended early; whole sentences."""


def look_into(folders: Iterable[Path], bounds: Bounds | None = None) -> Sight:
    """Everything in these folders and below that looks like a model."""
    walk = _Walk(bounds or Bounds())
    for folder in folders:
        walk.through(folder)
    return walk.sight


class _Walk:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._seen: set[tuple[int, int]] = set()
        self.sight = Sight()

    def through(self, top: Path) -> None:
        """Breadth first, so that files near the top are found before a limit is reached."""
        waiting = deque([(top, 0)])
        while waiting:
            folder, depth = waiting.popleft()
            if self._bounds.are_reached():
                self.sight.unseen.append(f"The search of {top} stopped early, at {folder}: it contains too many files.")
                return
            inner = self._in(folder)
            if depth < self._bounds.deepest:
                waiting.extend((each, depth + 1) for each in inner)

    def _in(self, folder: Path) -> list[Path]:
        """Record the models of one folder and return its subfolders."""
        try:
            if self._was_seen(os.stat(folder)):
                return []
            names = sorted(os.listdir(folder))
        except OSError as problem:
            self.sight.unseen.append(f"{folder} cannot be read: {problem.strerror}.")
            return []
        self._bounds.entries -= len(names)
        if "config.json" in names and any(name.endswith(".safetensors") for name in names):
            self.sight.checkpoints.append(folder)
        return [folder / name for name in names if self._note(folder, name, names)]

    def _note(self, folder: Path, name: str, beside: list[str]) -> bool:
        """Record a model file; True for a folder to scan."""
        if name.startswith("."):
            return False
        path = folder / name
        try:
            seen = path.stat()
        except OSError:
            return False  # a broken link
        if stat.S_ISDIR(seen.st_mode):
            return True
        if stat.S_ISREG(seen.st_mode) and not any(f"{name}{end}" in beside for end in UNFINISHED):
            self._note_file(path, seen)
        return False

    def _note_file(self, path: Path, seen: os.stat_result) -> None:
        if path.suffix == ".gguf" and is_first_part(path.name) and not self._was_seen(seen):
            self.sight.ggufs.append(path)
        elif path.suffix == ".bin" and path.name.startswith("ggml-") and not self._was_seen(seen):
            self.sight.whispers.append(path)

    def _was_seen(self, what: os.stat_result) -> bool:
        identity = (what.st_dev, what.st_ino)
        was_seen = identity in self._seen
        self._seen.add(identity)
        return was_seen


def is_first_part(name: str) -> bool:
    part = PART.fullmatch(name)
    return part is None or int(part[2]) == 1
