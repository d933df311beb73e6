"""The directories for what is kept across restarts and what can be made again, their JSON files, and their lock.

Nothing waits for the disk. A file that is no state or of a newer version counts as empty, and is set aside before the
next write; one that could not be opened or read counts as empty, and is not overwritten before it was read.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.errors import NewerFormat
from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

FORMAT = 1
LARGEST = 64 << 20
"""Bytes; a usual file has some ten thousand."""
UNREADABLE = ".unreadable"
LOCK = ".lock"
"""In the state directory; it is empty and stays, because a lock on a removed file excludes nobody."""
PAUSE: Seconds = 0.02


def state_directory(environ: Mapping[str, str]) -> Path:
    """The state directory: systemd's, else XDG_STATE_HOME, else ~/.local/state."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    usual = Path(environ.get("HOME", "/")) / ".local/state"
    return Path(environ.get("XDG_STATE_HOME") or usual) / "hotseat"


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The cache directory: systemd's, else XDG_CACHE_HOME, else ~/.cache."""
    if given := environ.get("CACHE_DIRECTORY"):
        return Path(given.split(":")[0])
    usual = Path(environ.get("HOME", "/")) / ".cache"
    return Path(environ.get("XDG_CACHE_HOME") or usual) / "hotseat"


def conversations_directory(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "conversations"


class StateFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: set[str] = set()
        self._ending_aside: str | None = ""
        """Of the name under which the current file is set aside before it is overwritten; empty: it was read.

        None: what is in it is not known, so it is not overwritten.
        """

    def read(self) -> dict[str, Any]:
        """The whole file; empty if it is missing or not readable."""
        self._ending_aside = ""
        try:
            return read_versioned(self._path)
        except FileNotFoundError:
            return {"format": FORMAT}
        except NewerFormat as problem:
            self._ending_aside = f".format-{problem.found}"
            self._warn("stored state was written by a newer version and is not used file=%s error=%r", str(problem))
        except OSError as problem:
            self._ending_aside = None
            self._warn("stored state cannot be read file=%s error=%r", str(problem))
        except ValueError as problem:
            self._ending_aside = UNREADABLE
            self._warn("stored state cannot be read and is discarded file=%s error=%r", str(problem))
        return {"format": FORMAT}

    def write(self, kept: dict[str, Any]) -> None:
        """Atomic: readers see the old file or the new one."""
        if self._ending_aside is None:
            return self._warn("stored state cannot be saved file=%s error=%r", "what is there could not be read")
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside.touch(mode=0o600)
            beside.write_text(json.dumps(kept))
            self._set_aside()
            beside.replace(self._path)
        except (OSError, ValueError, RecursionError) as problem:
            self._warn("stored state cannot be saved file=%s error=%r", str(problem))
            with suppress(OSError):
                beside.unlink()
        return None

    def _set_aside(self) -> None:
        """Keeps it for inspection or for a newer hotseat; replaces an older one that was set aside."""
        if self._ending_aside and not self._path.is_dir():
            aside = self._path.with_name(self._path.name + self._ending_aside)
            self._path.replace(aside)
            if self._ending_aside == UNREADABLE:
                log.warning("the unreadable file was renamed file=%s", aside)
            else:
                log.warning("the file of a newer version was kept file=%s", aside)
            self._ending_aside = ""

    def _warn(self, sentence: str, reason: str) -> None:
        """Log once: nothing depends on it."""
        if sentence not in self._said:
            log.warning(sentence, self._path, reason)
        self._said.add(sentence)


def read_versioned(path: Path) -> dict[str, Any]:
    """OSError or ValueError if it cannot be read; never blocks on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("it is not a regular file, or it is too large")
        kept = parsed(opened.read())
    if isinstance(kept, dict) and isinstance(found := kept.get("format"), int) and found > FORMAT:
        raise NewerFormat(found, FORMAT)
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    return kept


@contextmanager
def locked(directory: Path, longest_wait: Seconds = 0.0) -> Iterator[None]:
    """Only one process at a time is in the block; afterwards the names in the directory are on the disk.

    The lock is on a file that only hotseat's user can open. Whoever may list a directory can lock the directory itself.
    TimeoutError, which is an OSError, if another process still has the lock after `longest_wait`.
    """
    path = directory / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, longest_wait)
        yield
        _sync(directory)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, longest_wait: Seconds) -> None:
    until = time.monotonic() + longest_wait
    while not _is_taken(descriptor):
        if time.monotonic() >= until:
            raise TimeoutError(f"another process holds the lock {path}; try again, or find it with `fuser {path}`")
        time.sleep(PAUSE)


def _is_taken(descriptor: int) -> bool:
    """By us, now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
