"""How many file descriptors this process may have, and how many clients fit into them."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

OPEN_MAX = 10_240
"""What macOS grants at most."""
RESERVED = 128
"""For model servers' pipes, files and sockets of our own."""


def raise_file_limit() -> int:
    """Every stream takes two descriptors, and the soft limit of most shells is 1,024; returns the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit(soft, hard), hard))
    except (OSError, ValueError) as problem:  # fewer streams, but the same
        log.warning("the open file limit cannot be raised limit=%d error=%r", soft, str(problem))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def file_limit(soft: int, hard: int) -> int:
    """PURE: the soft limit to ask for; no infinite one, which macOS refuses though its hard limit is infinite."""
    if hard != resource.RLIM_INFINITY:
        return hard
    return soft if soft == resource.RLIM_INFINITY else max(soft, OPEN_MAX)


def highest_file_limit() -> int:
    """What it can be raised to."""
    return file_limit(*resource.getrlimit(resource.RLIMIT_NOFILE))


def most_connections(descriptors: int) -> int | None:
    """Each client may need a second one, for its model server; None where there is no limit."""
    return None if descriptors == resource.RLIM_INFINITY else max(1, (descriptors - RESERVED) // 2)
