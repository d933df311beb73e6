"""The stages of a client connection, and of reading a request from it."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Stage(Enum):
    OPEN = "open"
    TUNNEL = "tunnel"
    DISCARDING = "discarding"
    """The last response is sent, and we wait for the client to close."""
    CLOSED = "closed"


class Reading(Enum):
    BETWEEN = "between requests"
    HEAD = "head"
    BODY = "body"
    LOST = "lost"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
OPEN: Final = Stage.OPEN
TUNNEL: Final = Stage.TUNNEL
DISCARDING: Final = Stage.DISCARDING
CLOSED: Final = Stage.CLOSED
BETWEEN: Final = Reading.BETWEEN
HEAD: Final = Reading.HEAD
BODY: Final = Reading.BODY
LOST: Final = Reading.LOST
