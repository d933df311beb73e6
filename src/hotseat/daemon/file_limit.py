"""The limit of file descriptors, and how many clients it allows."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

OPEN_MAX = 10_240
"""The maximum on macOS."""
RESERVED = 224
"""For pipes of model servers, files, idle connections and other sockets, and for the connections beyond the limit."""
EACH = 3
"""Of a client: its connection, that to its upstream, and the other end of that in hotseat's own API, or an upload."""


def raise_file_limit() -> int:
    """A client needs three descriptors and most shells set a soft limit of 1,024; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit(soft, hard), hard))
    except (OSError, ValueError) as problem:  # fewer streams, no other effect
        log.warning("the open file limit cannot be raised limit=%d error=%r", soft, str(problem))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def file_limit(soft: int, hard: int) -> int:
    """PURE: the soft limit to set; never infinite, which macOS refuses although its hard limit is infinite."""
    if hard != resource.RLIM_INFINITY:
        return hard
    return soft if soft == resource.RLIM_INFINITY else max(soft, OPEN_MAX)


def most_connections(descriptors: int) -> int | None:
    """None: no limit."""
    return None if descriptors == resource.RLIM_INFINITY else max(1, (descriptors - RESERVED) // EACH)
