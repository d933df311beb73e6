"""The event loop's lag, which shows whether something blocked it."""

from __future__ import annotations

import asyncio
from collections import deque

from hotseat.tasks import forever

EVERY_S = 0.5
KEPT = 120
"""Samples: those of a minute, so that a scrape takes nothing from another scraper."""


class Lag:
    """Samples while `watch` runs."""

    def __init__(self) -> None:
        self._late_s: deque[float] = deque([0.0], KEPT)

    async def watch(self) -> None:
        """Never returns; cancel it to stop."""
        loop = asyncio.get_running_loop()

        async def sample() -> None:
            due = loop.time() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._late_s.append(max(0.0, loop.time() - due))

        await forever(sample, "loop lag")

    def worst_of_last_minute(self) -> float:
        return max(self._late_s)
