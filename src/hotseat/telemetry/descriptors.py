"""Logs when file descriptors run out: without them connections are dropped silently."""

from __future__ import annotations

import errno
import logging
import os

from hotseat.tasks import forever

log = logging.getLogger(__name__)

EVERY_S = 0.5
USED_UP = (errno.EMFILE, errno.ENFILE)


async def watch_descriptors() -> None:
    """Log when they are used up and when that is over; never returns, cancel it to stop."""
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
