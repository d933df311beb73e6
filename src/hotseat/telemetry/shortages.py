"""What hotseat runs short of: time of the event loop, and file descriptors."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import deque

from hotseat.tasks import forever

log = logging.getLogger(__name__)
EVERY_S = 0.5
KEPT = 120
"""Samples: those of a minute, so that a scrape takes nothing from another scraper."""
USED_UP = (errno.EMFILE, errno.ENFILE)


class Lag:
    """The event loop's lag, which shows whether something blocked it. Samples while `watch` runs."""

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


async def watch_descriptors() -> None:
    """Log when they are used up, since connections are then dropped silently, and when that is over; never returns."""
    were_left = True

    async def look() -> None:
        nonlocal were_left
        if are_left() != were_left:
            were_left = not were_left
            if were_left:
                log.info("file descriptors are available again")
            else:
                log.warning("no file descriptors are left")

    await forever(look, "file descriptors", EVERY_S)


def are_left() -> bool:
    """Open one: no way of counting them is cheaper."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as problem:
        return problem.errno not in USED_UP
    return True
