"""Learned figures that are kept across restarts, in one JSON file with a section per part that learns.

Nothing here is essential: a lost figure is learned again. Several hotseats may share the file, and each updates only
its own entries.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Mapping

LEARNED = "learned.json"
"""In the state directory."""
MOST = 200
"""Entries in a section; the least recently updated are dropped first."""


def state_directory(environ: Mapping[str, str]) -> Path:
    """The state directory: systemd's, else XDG_STATE_HOME, else ~/.local/state."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0])
    usual = Path(environ.get("HOME", "/")) / ".local/state"
    return Path(environ.get("XDG_STATE_HOME") or usual) / "hotseat"


class LearnedStore(StateFile):
    def section(self, name: str) -> Section:
        return Section(self, name)


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
