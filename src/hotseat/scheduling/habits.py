"""What was learned of each model by watching it: today, how long it takes to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.terms import ModelName, Seconds

UNKNOWN_LOAD_S: Seconds = 20.0
"""A guess for a house that has never loaded anything."""

FRESH = 0.3
"""Weight of the newest measurement: a cold page cache once must not look like a slow model for ever."""


class Habits:
    def __init__(self) -> None:
        self._load_s: dict[ModelName, Seconds] = {}

    def loaded(self, model: ModelName, seconds: Seconds) -> None:
        before = self._load_s.get(model, seconds)
        self._load_s[model] = before + FRESH * (seconds - before)

    def load_s(self, model: ModelName) -> Seconds:
        """Expected seconds to load; for a model never seen, the mean of those that were."""
        if model in self._load_s:
            return self._load_s[model]
        if self._load_s:
            return sum(self._load_s.values()) / len(self._load_s)
        return UNKNOWN_LOAD_S

    def measured_load_s(self, model: ModelName) -> Seconds | None:
        return self._load_s.get(model)
