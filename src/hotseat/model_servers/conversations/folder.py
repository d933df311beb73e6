"""The folder of saved conversations: one for each hotseat, private, removed when hotseat ends.

It is locked as long as its hotseat lives. The kernel releases the lock however that ends, so a folder whose lock is
free was left by a hotseat that was killed, and the next one takes it together with the servers that use it, or removes
it. A process that hands its servers over hands the lock over, too.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

log = logging.getLogger(__name__)

LOCK = "lock"
ATTEMPTS = 10
NAME = re.compile(r"[0-9a-f]{16}")
"""Of a hotseat's folder: eight random bytes."""


class Folder:
    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._own: Path | None = None
        self._lock = -1

    def opened(self) -> Path:
        """The folder, created if it is missing; OSError if it cannot be."""
        if self._own is None or not self._own.is_dir():
            self.close()
            self._own, self._lock = _created(self._parent)
        return self._own

    @property
    def shared(self) -> tuple[Path, int] | None:
        """The folder and the descriptor of its lock, for the process that takes it over; None: there is no folder."""
        return (self._own, self._lock) if self._own else None

    def take(self, path: Path, lock: int | None = None) -> bool:
        """Go on with the folder of another process; without its lock, that process must be gone. False: it cannot be.

        Only while there is no folder.
        """
        if self._own or path.parent != self._parent or not (NAME.fullmatch(path.name) and _is_folder(path)):
            return False
        found = _locked(path) if lock is None else lock
        if found is None:
            return False
        self._own, self._lock = path, found
        return True

    def leave(self) -> None:
        """Another process goes on with it, or will: from now on this one neither uses nor removes it."""
        if self._own:
            os.close(self._lock)
        self._own = None

    def names(self) -> list[str]:
        """Of all files in it."""
        with suppress(OSError):
            return [name for name in os.listdir(self._own) if name != LOCK] if self._own else []
        return []

    def path(self, name: str) -> Path:
        assert self._own, "only what was opened has files"
        return self._own / name

    def remove(self, names: Iterable[str]) -> None:
        """Missing files are fine. Large ones take long: not for the event loop."""
        for name in names:
            if self._own:
                _remove(self._own / name)

    def remove_later(self, names: list[str]) -> asyncio.Future[None]:
        """The result can be awaited: then they are removed."""
        return asyncio.get_running_loop().run_in_executor(None, self.remove, names)

    def close(self) -> None:
        """Remove it with all its files."""
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)
        self.leave()

    def remove_leftovers(self) -> None:
        """Remove the folders of hotseats that are gone."""
        for folder in _folders(self._parent):
            lock = _locked(folder)
            if lock is None:
                continue
            log.info("removing saved conversations of an earlier hotseat folder=%s", folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _created(parent: Path) -> tuple[Path, int]:
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(ATTEMPTS):
        folder = parent / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        lock = _locked(folder)
        if lock is not None:
            return folder, lock
        shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"no folder in {parent} can be locked")


def _locked(folder: Path) -> int | None:
    """The descriptor of the lock; None: another hotseat has it, or has just removed the folder, or it cannot be had."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.stat(folder / LOCK), os.fstat(lock)):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _folders(parent: Path) -> list[Path]:
    """Those that a hotseat has made: others may be in the same place."""
    try:
        return [folder for folder in parent.iterdir() if NAME.fullmatch(folder.name) and _is_folder(folder)]
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        log.warning("a saved conversation cannot be removed file=%s error=%r", path, str(problem))
