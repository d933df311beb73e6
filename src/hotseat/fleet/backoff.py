"""Pauses before another try: they grow, with chance in them, so that those cut off together do not return together."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Seconds

chance: Callable[[float, float], float] = SystemRandom().uniform


class Pauses:
    def __init__(self, least_s: Seconds = 1.0, most_s: Seconds = 30.0) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._bound_s = least_s

    def next(self) -> Seconds:
        """From the least on, up to twice as long as the last time."""
        self._bound_s = min(self._most_s, 2 * self._bound_s)
        return chance(self._least_s, self._bound_s)

    def forget(self) -> None:
        """It went well: the next pause is a short one again."""
        self._bound_s = self._least_s
