"""Requests that fleet hosts forward to each other.

The host that received a request has checked the client's key. It states client, role and model, and proves that it
belongs to this fleet; nobody else is trusted. A forwarded request is served or rejected, never forwarded again.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hotseat.errors import HostUnproven, HotseatError, LoadFailed, NotLoaded, NotServed, ShuttingDown, UnknownModel
from hotseat.fleet.host_headers import (
    ADMIN,
    FOR_CLIENT,
    FOR_MODEL,
    FOR_ROLE,
    FROM_HOST,
    INFERENCE,
    OPERATE,
    PROOF,
    RESTART,
    said_by,
)
from hotseat.fleet.proofs import FleetSecret, LogLimit, ProofChecker
from hotseat.relay.access.api_keys import Verdict
from hotseat.relay.routing.model_name import MODEL_IN_URL, Destination
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName, Seconds
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.paths import PathTable
    from hotseat.settings import Fleet

log = logging.getLogger(__name__)

MOST_NAMES = 1024
WARN_S: Seconds = 60.0
ROLES = {INFERENCE: Role.INFERENCE, OPERATE: Role.OPERATE}
"""A forwarded request never has the role admin: such requests are made at the host they concern. Only to restart, a
host speaks for an administrator whose key it has checked."""
FOR_ADMINISTRATORS = (b"POST", RESTART.encode())
UNDONE = (UnknownModel, ShuttingDown)
"""Errors after which nothing was done for the request, so that another host may be tried."""


class HostVerifier:
    """Authenticates the other hosts. Outlives reloads, since it remembers proofs to detect replays."""

    def __init__(self, fleet: Fleet | None) -> None:
        self.checker = ProofChecker(fleet.name, FleetSecret(fleet.secrets, fleet.prefix)) if fleet else None
        self._warnings = LogLimit(WARN_S)

    def verdict(self, head: RequestHead) -> Verdict | None:
        """The rights of a host; None for a client. Without proof it is rejected, or it could loop between hosts."""
        if self.checker is None or FROM_HOST not in head.known:
            return None
        host = head.known[FROM_HOST].decode("latin-1") or "a host without a name"
        try:
            self.checker.check(host, said_in(head), head.known.get(PROOF, b""))
        except HostUnproven as unproven:
            self._warn(host, unproven)
            raise
        return Verdict(role=role_stated_in(head), from_host=host, holder=f"host {host}")

    def is_proven_again(self, said: bytes, proof: bytes) -> bool:
        """Is this proof valid for another request with a cached head?"""
        if self.checker is None:
            return False
        try:
            self.checker.check("", said, proof)
        except HostUnproven:  # reported when the head is parsed again
            return False
        return True

    def _warn(self, host: str, unproven: HostUnproven) -> None:
        """Not limited per host, since senders can choose any name."""
        if self._warnings.lets_through():
            log.warning(
                "refused a request that claims to come from a fleet host host=%r reason=%r", host, unproven.message
            )


def said_in(head: RequestHead) -> bytes:
    """What a proof covers, as received."""
    said = head.known.get
    return said_by(
        said(FROM_HOST, b""), head.method, head.target, said(FOR_MODEL, b""), said(FOR_CLIENT, b""), said(FOR_ROLE, b"")
    )


def role_stated_in(head: RequestHead) -> Role:
    """At most operate, except for a restart."""
    stated = head.known.get(FOR_ROLE, b"")
    if stated == ADMIN and (head.method, head.target) == FOR_ADMINISTRATORS:
        return Role.ADMIN
    return ROLES.get(stated, Role.INFERENCE)


def stated_role(verdict: Verdict, *, authenticates: bool) -> bytes:
    """The role stated to the next host: without configured keys everybody may do everything."""
    if verdict.role is None:
        return INFERENCE if authenticates else OPERATE
    return INFERENCE if verdict.role is Role.INFERENCE else OPERATE


@lru_cache(MOST_NAMES)
def line_for_model(model: ModelName) -> bytes:
    """Saves the next host from resolving the model again; path and body stay unchanged."""
    return b"%b: %b\r\n" % (FOR_MODEL, model_in_line(model))


@lru_cache(MOST_NAMES)
def model_in_line(model: ModelName) -> bytes:
    return quote(model).encode()


def destination_for_host(head: RequestHead, catalog: Catalog, paths: PathTable) -> Destination | None:
    """The destination that the forwarding host stated; None if it stated none."""
    model = head.known.get(FOR_MODEL)
    if model is None:
        return None
    named_model = catalog.follow(unquote(model.decode("latin-1")))
    return Destination(MODEL_IN_URL, head.target, named_model, rule=paths.of_model(head.method, head.target))


def refusal_for_host(error: HotseatError, head: RequestHead) -> HotseatError:
    """The error in the form that the forwarding host understands."""
    if FROM_HOST in head.known and isinstance(error, UNDONE):
        return NotServed(error.without_names().message)
    if FROM_HOST in head.known and isinstance(error, LoadFailed):
        return NotLoaded(error.message, retry_after=error.retry_after)
    return error
