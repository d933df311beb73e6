"""The event loop's lag, which shows whether something blocked it."""

from __future__ import annotations

import asyncio

from hotseat.tasks import forever

EVERY_S = 0.5


class Lag:
    """Samples while `watch` runs; `worst_since_asked` is the value for a scrape."""

    def __init__(self) -> None:
        self._worst_s = 0.0

    async def watch(self) -> None:
        """Never returns; cancel it to stop."""
        loop = asyncio.get_running_loop()

        async def sample() -> None:
            due = loop.time() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._worst_s = max(self._worst_s, loop.time() - due)

        await forever(sample, "loop lag")

    def worst_since_asked(self) -> float:
        worst, self._worst_s = self._worst_s, 0.0
        return worst
