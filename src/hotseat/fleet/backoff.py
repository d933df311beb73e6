"""Random delays that grow between retries, so that hosts cut off together do not all reconnect together."""

from __future__ import annotations

from random import SystemRandom
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Seconds

chance: Callable[[float, float], float] = SystemRandom().uniform


class Backoff:
    def __init__(self, least_s: Seconds = 1.0, most_s: Seconds = 30.0) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._bound_s = least_s

    def next(self) -> Seconds:
        """Between the minimum and a limit that doubles with each call."""
        self._bound_s = min(self._most_s, 2 * self._bound_s)
        return chance(self._least_s, self._bound_s)

    def forget(self) -> None:
        """Start again with a short delay after a success."""
        self._bound_s = self._least_s
