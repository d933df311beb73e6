"""Keeps the scheduler's learned figures across restarts: saved from time to time and at shutdown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hotseat.scheduling.events import UpstreamAwake, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.model_stats import StatsOfModels
    from hotseat.state.learned_store import Section

BETWEEN_SAVES_S: Seconds = 60.0


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
