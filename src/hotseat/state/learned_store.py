"""Learned figures that are kept across restarts, in one JSON file with a section per part that learns.

Nothing here is essential. A lost figure is learned again, so nothing waits for the disk, and an unreadable file counts
as empty and is set aside before the next write. Several hotseats may share the file: each updates only its own entries.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.net.json_text import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

LEARNED = "learned.json"
"""In the state directory."""
FORMAT = 1
LARGEST = 64 << 20
"""Bytes; a usual file has some ten thousand."""
MOST = 200
"""Entries in a section; the least recently updated are dropped first."""


def state_directory(environ: Mapping[str, str]) -> Path:
    """The state directory: systemd's, else XDG_STATE_HOME, else ~/.local/state."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    usual = Path(environ.get("HOME", "/")) / ".local/state"
    return Path(environ.get("XDG_STATE_HOME") or usual) / "hotseat"


class LearnedStore:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: set[str] = set()
        self._is_unreadable = False
        """The current file must not be overwritten."""

    def section(self, name: str) -> Section:
        return Section(self, name)

    def read(self) -> dict[str, Any]:
        """The whole file; empty if it is missing or not readable."""
        self._is_unreadable = False
        try:
            return _read(self._path)
        except FileNotFoundError:
            return {"format": FORMAT}
        except (OSError, ValueError) as problem:
            self._is_unreadable = True
            self._warn("learned data cannot be read and is discarded file=%s error=%r", str(problem))
        return {"format": FORMAT}

    def write(self, kept: dict[str, Any]) -> None:
        """Atomic: readers see the old file or the new one."""
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside.touch(mode=0o600)
            beside.write_text(json.dumps(kept))
            self._set_aside_unreadable()
            beside.replace(self._path)
        except (OSError, ValueError, RecursionError) as problem:
            self._warn("learned data cannot be saved file=%s error=%r", str(problem))
            with suppress(OSError):
                beside.unlink()

    def _set_aside_unreadable(self) -> None:
        """Keeps it for inspection or for a newer hotseat; replaces an older one that was set aside."""
        if self._is_unreadable and not self._path.is_dir():
            aside = self._path.with_name(f"{self._path.name}.unreadable")
            self._path.replace(aside)
            log.warning("the unreadable file was renamed file=%s", aside)

    def _warn(self, sentence: str, reason: str) -> None:
        """Log once: nothing depends on it."""
        if sentence not in self._said:
            log.warning(sentence, self._path, reason)
        self._said.add(sentence)


def _read(path: Path) -> dict[str, Any]:
    """OSError or ValueError if it cannot be read; never blocks on a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise ValueError("it is not a regular file, or it is too large")
        kept = parsed(opened.read())
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    return kept


class Section:
    """The entries of one part, by key. An entry is any JSON value."""

    def __init__(self, learned_store: LearnedStore, name: str) -> None:
        self._learned_store, self._name = learned_store, name

    def recall(self) -> dict[str, Any]:
        return self._facts_in(self._learned_store.read())

    def keep(self, key: str, fact: Any) -> None:
        self.keep_all({key: fact})

    def keep_all(self, renewed: Mapping[str, Any]) -> None:
        """Replace these entries; others stay as they are in the file now."""
        kept = self._learned_store.read()
        facts = self._facts_in(kept)
        for key, fact in renewed.items():
            facts.pop(key, None)
            facts[key] = fact  # the newest last
        self._learned_store.write({**kept, self._name: dict(list(facts.items())[-MOST:])})

    def _facts_in(self, kept: dict[str, Any]) -> dict[str, Any]:
        facts = kept.get(self._name)
        return dict(facts) if isinstance(facts, dict) else {}
