"""Who did what to the house: one log line for each request that loads, unloads or changes something, when it ends."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from hotseat.error_bodies import one_line

if TYPE_CHECKING:
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.exchange.request import Request

log = logging.getLogger("hotseat.audit")
log.setLevel(logging.INFO)  # also where `logLevel` wants less: what was done must be known afterwards

LONGEST_PATH = 200


def note(request: Request, peer: str, status: int) -> None:
    """The path without its query, which may hold what is nobody's business."""
    path = one_line(request.head.target.partition(b"?")[0].decode("latin-1"), LONGEST_PATH)
    did, name = Quoted(f"{request.head.method.decode()} {path}"), request.id.decode()
    about = who(request.verdict), peer, did, status, name
    if request.verdict.from_host:
        log.info("audit who=%s from=%s did=%r status=%d request=%s for=%r", *about, Quoted(request.client))
    else:
        log.info("audit who=%s from=%s did=%r status=%d request=%s", *about)


def who(verdict: Verdict) -> str:
    """A key or a host of the fleet, each by its kind and its name in quotes, so that neither is taken for the other."""
    if verdict.from_host:
        return f"host:{Quoted(verdict.from_host)!r}"
    return f"key:{Quoted(verdict.holder)!r}" if verdict.account is not None else "anybody"


class Quoted(str):
    """In a line of text it stands in double quotes, as JSON: nothing in it can look like its end, or another line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return json.dumps(self, ensure_ascii=not self.isprintable())
