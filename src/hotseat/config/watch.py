"""Have the files of a configuration changed? Asked once in a while, by looking at them.

Looking works where events do not: on network file systems, through bind mounts, and when a link is turned to another
file, as Kubernetes does it. A change counts once it has stood for one look, so that no half-written file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Looks: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""For each file: its path, and what changes when it is written to or replaced."""


class Watch:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._known = self._before = look_at(paths)

    def has_changed(self) -> bool:
        """True once after each change, however many writes it took."""
        now, before = look_at(self._paths), self._before
        self._before = now
        if now == self._known or now != before:
            return False
        self._known = now
        return True


def look_at(paths: Sequence[Path]) -> Looks:
    """Files that are missing are not there, and folders are their files."""
    files = [file for path in paths for file in (sorted(path.glob("*.y*ml")) if path.is_dir() else [path])]
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((str(file), status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
