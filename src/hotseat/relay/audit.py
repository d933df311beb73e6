"""Who did what to the house: one log line for each request that loads, unloads or changes something, when it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.relay.refusals import one_line

if TYPE_CHECKING:
    from hotseat.relay.request import Request

log = logging.getLogger("hotseat.audit")
log.setLevel(logging.INFO)  # also where `logLevel` wants less: what was done must be known afterwards

LONGEST_PATH = 200


def note(request: Request, peer: str, status: int) -> None:
    """The path without its query, which may hold what is nobody's business."""
    path = one_line(request.head.target.partition(b"?")[0].decode("latin-1"), LONGEST_PATH)
    who = request.verdict.holder or "anybody"
    did, name = f"{request.head.method.decode()} {path}", request.id.decode()
    log.info("audit who=%r from=%s did=%r status=%d request=%s", who, peer, did, status, name)
