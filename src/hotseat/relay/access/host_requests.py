"""Requests that hosts of a fleet pass on to each other.

The host that a client asked has checked its key. It says who asks, with which role and for which model, and proves that
it is a host of this fleet; nobody else is believed. What was passed on is served here or turned away, and never passed
on again.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hotseat.errors import HostUnproven, HotseatError, NotHere, ShuttingDown, UnknownModel
from hotseat.fleet.host_headers import FOR_CLIENT, FOR_MODEL, FOR_ROLE, FROM_HOST, INFERENCE, OPERATE, PROOF, said_by
from hotseat.fleet.host_proof import FleetSecret, LogLimit, ProofChecker
from hotseat.relay.access.api_keys import Verdict
from hotseat.relay.routing.model_name import Destination, Road
from hotseat.settings import Role

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName, Seconds
    from hotseat.relay.http.head import RequestHead
    from hotseat.relay.routing.paths import PathTable
    from hotseat.settings import Fleet

log = logging.getLogger(__name__)

MOST_NAMES = 1024
WARN_S: Seconds = 60.0
ROLES = {INFERENCE: Role.INFERENCE, OPERATE: Role.OPERATE}
"""What is passed on is never an administrator's: that is done at the host it is about."""
UNDONE = (UnknownModel, ShuttingDown)
"""Refusals after which nothing was done for the request, so that another host may be asked."""


class Fellows:
    """The other hosts, as they are told from everybody else. Outlives reloads: it remembers what was asked."""

    def __init__(self, fleet: Fleet | None) -> None:
        self._checker = ProofChecker(fleet.name, FleetSecret(fleet.secrets)) if fleet is not None else None
        self._warnings = LogLimit(WARN_S)

    def verdict(self, head: RequestHead) -> Verdict | None:
        """What a host may; None where a client asks. Without proof it is refused, or it could go in circles."""
        if self._checker is None or FROM_HOST not in head.known:
            return None
        host = head.known[FROM_HOST].decode("latin-1") or "a host without a name"
        try:
            self._checker.check(host, said_in(head), head.known.get(PROOF, b""))
        except HostUnproven as unproven:
            self._warn(host, unproven)
            raise
        role = ROLES.get(head.known.get(FOR_ROLE, b""), Role.INFERENCE)
        return Verdict(role=role, from_host=host, holder=f"host {host}")

    def is_proven_again(self, said: bytes, proof: bytes) -> bool:
        """Does this proof hold for one more request with a head that was read before?"""
        try:
            if self._checker is not None:
                self._checker.check("", said, proof)
        except HostUnproven:  # which is told to whoever reads the head again
            return False
        return True

    def _warn(self, host: str, unproven: HostUnproven) -> None:
        """Not by host: anybody can call himself anything."""
        if self._warnings.lets_through():
            log.warning(
                "refused a request that claims to come from a fleet host host=%r reason=%r", host, unproven.message
            )


def said_in(head: RequestHead) -> bytes:
    """What a proof is about, as it came."""
    said = head.known.get
    return said_by(
        said(FROM_HOST, b""), head.method, head.target, said(FOR_MODEL, b""), said(FOR_CLIENT, b""), said(FOR_ROLE, b"")
    )


def stated_role(verdict: Verdict, *, has_keys: bool) -> bytes:
    """What the next host is told that the caller may do: without keys everybody may do everything."""
    if verdict.role is None:
        return INFERENCE if has_keys else OPERATE
    return INFERENCE if verdict.role is Role.INFERENCE else OPERATE


@lru_cache(MOST_NAMES)
def line_for_model(model: ModelName) -> bytes:
    """So that the next host need not find out again; what the path and the body say stays as it is."""
    return b"%b: %b\r\n" % (FOR_MODEL, model_in_line(model))


@lru_cache(MOST_NAMES)
def model_in_line(model: ModelName) -> bytes:
    return quote(model).encode()


def road_for_fellow(head: RequestHead, catalog: Catalog, paths: PathTable) -> Destination | None:
    """Where the host that passed it on wants it to go; None where it leaves that to us."""
    model = head.known.get(FOR_MODEL)
    if model is None:
        return None
    lead = catalog.follow(unquote(model.decode("latin-1")))
    return Destination(Road.MODEL_IN_URL, head.target, lead, rule=paths.of_model(head.method, head.target))


def told_to_fellow(error: HotseatError, head: RequestHead) -> HotseatError:
    """The refusal as a host that passed the request on understands it."""
    if FROM_HOST in head.known and isinstance(error, UNDONE):
        return NotHere(error.message)
    return error
