"""The models that a folder offers now: complete files only, each under its name.

A file is complete when its head says so and nobody has written to it for a moment. A repeated scan costs one stat per
file: heads are read once. A file that vanished stays on offer while its model is in use.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from hotseat.estimates.report import CannotEstimate
from hotseat.model_files.file_kind import Found, Role, read_gguf
from hotseat.model_files.search import look_into, names_in, paired
from hotseat.threads import within

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from hotseat.identifiers import Seconds

SETTLED_S: Seconds = 2.0
SCAN_S: Seconds = 60.0
PROJECTOR = "mmproj"
HELPERS = (Role.PROJECTOR, Role.DRAFT)

Looks: TypeAlias = tuple[int, int, int]
"""The attributes that change when a file is written or replaced."""


class ModelFolders:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._read: dict[Path, tuple[Looks, Found | None]] = {}
        self.in_use: Collection[str] = ()
        """Names that stay although their file is gone."""
        self.offered: Mapping[str, Path] = {}

    def look(self, folder: Path) -> Mapping[str, Path]:
        """Names and files in a stable order; the last ones while the disk hangs. Blocks while new heads are read."""
        read = within(SCAN_S, str(folder), folder, partial(self._scan, folder))
        if read is None:
            return self.offered
        self._read = read
        models = sorted((found for _, found in self._read.values() if found), key=lambda found: str(found.path))
        present = {name: model.path for name, model in zip(names_in(folder, models), models, strict=True)}
        kept = {name: path for name, path in self.offered.items() if name in self.in_use}
        self.offered = {**kept, **present}
        return self.offered

    def _scan(self, folder: Path) -> dict[Path, tuple[Looks, Found | None]]:
        """What was read is kept for the next scan if this one takes too long."""
        paths = look_into([folder]).ggufs
        for path in paths:
            self._read[path] = self._looked_at(path)
        return {path: self._read[path] for path in paths}

    def _looked_at(self, path: Path) -> tuple[Looks, Found | None]:
        try:
            seen = path.stat()
        except OSError:  # gone since it was listed
            return (0, 0, 0), None
        looks = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        before = self._read.get(path)
        if before and before[0] == looks:
            return before
        if 0 <= self._clock() - seen.st_mtime < SETTLED_S:
            return (0, 0, 0), None
        return looks, _model_in(path)


def _model_in(path: Path) -> Found | None:
    found = _read(path)
    return None if found and found.role in HELPERS else found


def _read(path: Path) -> Found | None:
    try:
        return read_gguf(path)
    except CannotEstimate:
        return None


def projector_beside(file: Path) -> Path | None:
    """The best projector in the model's folder that fits it; only files with `mmproj` in their names are read."""
    beside = [path for path in sorted(file.parent.glob("*.gguf")) if PROJECTOR in path.name.lower() and path != file]
    if not beside:
        return None
    found = [_read(path) for path in (file, *beside)]
    return next((model.projector for model in paired([each for each in found if each]) if model.path == file), None)


def offered_by(folder: Path) -> Mapping[str, Path]:
    """One scan, without cached heads."""
    return ModelFolders().look(folder)
