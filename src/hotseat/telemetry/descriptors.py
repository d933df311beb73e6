"""Are file descriptors left? Without them connections are dropped in silence, so at least the log should say why."""

from __future__ import annotations

import asyncio
import errno
import logging
import os

log = logging.getLogger(__name__)

EVERY_S = 0.5
USED_UP = (errno.EMFILE, errno.ENFILE)


async def watch_descriptors() -> None:
    """Tell when they are used up and when that is over; never returns, cancel it to stop."""
    were_left = True
    while True:
        if are_left() != were_left:
            were_left = not were_left
            if were_left:
                log.info("file descriptors are available again")
            else:
                log.warning("no file descriptors are left")
        await asyncio.sleep(EVERY_S)


def are_left() -> bool:
    """Try one: nobody counts them more cheaply than the kernel."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as problem:
        return problem.errno not in USED_UP
    return True
