"""Detects changes to configuration files by polling.

Polling works where file events do not: on network file systems, through bind mounts, and when a symlink is switched
to another file, as Kubernetes does. A change counts once two polls agree, so that no half-written file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from hotseat.tasks import forever
from hotseat.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from hotseat.identifiers import Seconds

Looks: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""For each file: its path, and the attributes that change when it is written or replaced."""


class Watch:
    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._known = self._before = look_at(paths)

    def has_changed(self) -> bool:
        """True once after each change, however many writes it consists of. Reads the disk: not for the event loop."""
        now, before = look_at(self._paths), self._before
        self._before = now
        if now == self._known or now != before:
            return False
        self._known = now
        return True

    async def follow(
        self, changed: Callable[[], Awaitable[object]], name: str, every_s: Seconds, *, is_due: bool = False
    ) -> NoReturn:
        """Call `changed` after each change, and again if it has raised; `is_due`: the first time too."""

        async def look() -> None:
            nonlocal is_due
            is_due = is_due or await in_thread("look for changes", self.has_changed)
            if is_due:
                await changed()
            is_due = False

        await forever(look, name, every_s)


def look_at(paths: Sequence[Path]) -> Looks:
    """Missing files are left out; a folder stands for its files."""
    files = [file for path in paths for file in (sorted(path.glob("*.y*ml")) if path.is_dir() else [path])]
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((str(file), status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)
