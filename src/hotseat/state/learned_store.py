"""Learned figures that are kept across restarts, in one JSON file with a section per part that learns.

Nothing here is essential: a lost figure is learned again. Several hotseats may share the file, and each updates only
its own entries. The scheduler's figures are saved from time to time and at shutdown.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hotseat.scheduling.events import UpstreamAwake, UpstreamReady
from hotseat.state.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.model_stats import StatsOfModels

LEARNED = "learned.json"
"""In the state directory."""
MOST = 200
"""Entries in a section; the least recently updated are dropped first."""
BETWEEN_SAVES_S: Seconds = 60.0


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


class ModelStatsStore:
    def __init__(
        self, section: Section, model_stats: StatsOfModels, clock: Callable[[], Instant] = time.monotonic
    ) -> None:
        self._section = section
        self._model_stats = model_stats
        self._clock = clock
        self._saved_at: Instant = float("-inf")

    def recall(self) -> None:
        """Restore what an earlier run saved."""
        self._model_stats.adopt(self._section.recall())

    def watch(self, entry: Entry) -> None:
        """A listener of the journal: saves after loads and wakes, which add most."""
        if isinstance(entry.event, UpstreamReady | UpstreamAwake) and self._clock() - self._saved_at >= BETWEEN_SAVES_S:
            self.save()

    def save(self) -> None:
        """Figures of models in other configurations stay."""
        self._saved_at = self._clock()
        self._section.keep_all(self._model_stats.export())
