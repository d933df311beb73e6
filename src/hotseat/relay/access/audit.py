"""The audit log: one line at the end of each request that loads, unloads or changes something."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from hotseat.error_bodies import one_line
from hotseat.relay.access.authority import LOCALHOST

if TYPE_CHECKING:
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.exchange.request import Request

log = logging.getLogger("hotseat.audit")
log.setLevel(logging.INFO)  # regardless of `logLevel`: actions must always be recorded

LONGEST_PATH = 200


def note(request: Request, peer: str, status: int) -> None:
    """Logs the path without its query, which may contain secrets."""
    head = request.head
    host = f"{head.label}{LOCALHOST}" if head.label else ""
    path = one_line(host + head.target.partition(b"?")[0].decode("latin-1"), LONGEST_PATH)
    action, request_id = Quoted(f"{head.method.decode()} {path}"), request.id.decode()
    fields = actor(request.verdict), peer, action, status, request_id
    if request.verdict.from_host:
        log.info("audit actor=%s address=%s action=%r status=%d request=%s client=%r", *fields, Quoted(request.client))
    else:
        log.info("audit actor=%s address=%s action=%r status=%d request=%s", *fields)


def actor(verdict: Verdict) -> str:
    """A key or a fleet host, with its kind and its quoted name, so that neither can pose as the other."""
    if verdict.from_host:
        return f"host:{Quoted(verdict.from_host)!r}"
    return f"key:{Quoted(verdict.holder)!r}" if verdict.account is not None else "anonymous"


class Quoted(str):
    """Its repr is a JSON string in double quotes, so its content can fake neither its end nor another log line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return json.dumps(self, ensure_ascii=not self.isprintable())
