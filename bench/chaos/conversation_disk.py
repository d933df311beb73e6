"""The saved conversations of a hotseat as files: damaged from the outside, and compared with their budget."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from bench.chaos.hotseat_process import HotseatProcess

SAVED, PART, LOCK = ".slot", ".part", "lock"
LOOK_S = 0.2
OBEYS_WITHIN_S = 10.0
"""A smaller budget applies after a reload, which hotseat may not survive; the next one has to start first."""


class ConversationDisk:
    def __init__(self, rig: HotseatProcess, rng: random.Random) -> None:
        self._rig, self._rng = rig, rng
        self.most = 0
        """Bytes of all files, at the worst moment."""
        self.damaged = 0

    # Damage

    def truncate(self) -> None:
        for path in self._some():
            with suppress(FileNotFoundError):
                os.truncate(path, self._rng.randrange(path.stat().st_size + 1))

    def replace(self) -> None:
        """With noise of the same size or with another conversation, at once: nobody reads a mixture of both."""
        other = self._rig.folder / "other"
        for path in self._some():
            with suppress(FileNotFoundError):
                source = self._rng.choice(saved(self._rig))
                size = path.stat().st_size
                other.write_bytes(source.read_bytes() if source != path else self._rng.randbytes(size))
                os.replace(other, path)

    def remove(self) -> None:
        for path in self._some():
            path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        self.damaged += bool(saved(self._rig))
        shutil.rmtree(self._rig.cache, ignore_errors=True)

    def _some(self) -> list[Path]:
        """Half of them, and at least one."""
        there = saved(self._rig)
        chosen = self._rng.sample(there, (len(there) + 1) // 2)
        self.damaged += len(chosen)
        return chosen

    # The budget

    async def watch(self, is_over: asyncio.Event) -> str | None:
        """Until `is_over`; what is wrong."""
        obeyed_at = time.monotonic()
        while not is_over.is_set():
            size = sum(map(size_of, files(self._rig)))
            self.most = max(self.most, size)
            now = time.monotonic()
            obeyed_at = now if size <= self._rig.disk else obeyed_at
            if now > obeyed_at + OBEYS_WITHIN_S:
                return f"saved conversations took {size} bytes for {OBEYS_WITHIN_S:g} s, {self._rig.disk} are allowed"
            await asyncio.sleep(LOOK_S)
        return None


def saved(rig: HotseatProcess) -> list[Path]:
    return [path for path in files(rig) if path.suffix == SAVED]


def parts(rig: HotseatProcess) -> list[Path]:
    return [path for path in files(rig) if path.suffix == PART]


def files(rig: HotseatProcess) -> list[Path]:
    """Except locks. Folders may vanish meanwhile."""
    with suppress(OSError):
        return sorted(path for path in rig.cache.rglob("*") if path.name != LOCK and path.is_file())
    return []


def size_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0
