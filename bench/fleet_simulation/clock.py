"""A clock that jumps to the next event."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Instant


class Clock:
    __slots__ = ("_coming", "_number", "now")

    def __init__(self) -> None:
        self.now: Instant = 0.0
        self._coming: list[tuple[Instant, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, when: Instant, happens: Callable[..., None], *about: Any) -> None:
        # The number keeps simultaneous events in the order in which they were scheduled. Any: arguments differ.
        self._number += 1
        heapq.heappush(self._coming, (when, self._number, happens, about))

    def run_until(self, end: Instant) -> None:
        while self._coming and self._coming[0][0] <= end:
            self.now, _, happens, about = heapq.heappop(self._coming)
            happens(*about)
        self.now = max(self.now, end)
