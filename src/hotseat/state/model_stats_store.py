"""Keeps what the scheduler learned across restarts: load times and habits, now and then and at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hotseat.scheduling.events import UpstreamAwake, UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.dispatch.journal import Entry
    from hotseat.identifiers import Instant, Seconds
    from hotseat.scheduling.model_stats import Habits
    from hotseat.state.learned_store import Section

BETWEEN_SAVES_S: Seconds = 60.0


class HabitKeeper:
    def __init__(self, section: Section, habits: Habits, clock: Callable[[], Instant] = time.monotonic) -> None:
        self._section = section
        self._habits = habits
        self._clock = clock
        self._saved_at: Instant = float("-inf")

    def recall(self) -> None:
        """Believe what an earlier run wrote down, if it did."""
        self._habits.adopt(self._section.recall())

    def watch(self, entry: Entry) -> None:
        """A load and a wake teach most; give this to `Journal.listen`."""
        if isinstance(entry.event, UpstreamReady | UpstreamAwake) and self._clock() - self._saved_at >= BETWEEN_SAVES_S:
            self.save()

    def save(self) -> None:
        """What another configuration learned of other models stays."""
        self._saved_at = self._clock()
        self._section.keep_all(self._habits.export())
