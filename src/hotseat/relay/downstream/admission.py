"""PURE, except for proofs of fleet hosts, each of which is accepted once: may a request with this head be served?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotseat.relay.access.host_requests import destination_for_host, said_in
from hotseat.relay.routing.body_rules import must_stay_in_memory, names_in_json
from hotseat.relay.routing.model_name import destination_for

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Address, Bytes
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.http.head_cache import HeadTemplate
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination


@dataclass(slots=True)
class Admission:
    """Who sent a head, where its request goes, what it may carry. Requests with the same head share it."""

    head: RequestHead
    destination: Destination
    verdict: Verdict
    most_bytes: Bytes
    """The size limit of the body."""
    may_spool: bool
    names_in_json: bool
    """Does it require a JSON body that names the model?"""
    said: bytes
    """What a fleet host must prove for each request with this head; empty for a client's."""
    policy: Policy
    catalog: Catalog
    """Policy and catalog that it is valid for."""
    template: HeadTemplate | None = None
    """Finds the same head with another length; None if it has none, or must be checked each time."""
    sent_to: Address | None = None
    sent_for: str = ""
    sent_as: bytes = b""
    """The last upstream head without its length: for this address and this client address."""

    def allows(self, length: int | None) -> bool:
        """May a request with this head, but this Content-Length, be served?"""
        return length is None or (length <= self.most_bytes and not self.head.chunked)

    def of_one_request(self, head: RequestHead, destination: Destination) -> Admission:
        """A copy for a request that is changed on its way; its upstream head is its own."""
        return replace(self, head=head, destination=destination, sent_to=None, sent_for="", sent_as=b"")


class NotAdmitted(Exception):
    """A request that goes no further than its head: it is refused, or we answer it ourselves."""

    def __init__(self, head: RequestHead | None, outcome: HotseatError | bytes) -> None:
        super().__init__(outcome)
        self.head = head
        """None if it cannot be read."""
        self.outcome = outcome


def admit(head: RequestHead, policy: Policy, catalog: Catalog) -> Admission | bytes:
    """Check a head before anything has an effect; returns our own answer if it is a CORS preflight."""
    policy.check_sender(head)
    if (preflight := policy.cors.preflight(head)) is not None:
        return preflight
    verdict = policy.identify(head)
    passed_on = destination_for_host(head, catalog, policy.paths) if verdict.from_host else None
    destination = passed_on or destination_for(head, catalog, policy.paths)
    policy.check_may_ask(verdict, destination)
    return Admission(
        head,
        destination,
        verdict,
        policy.most_bytes(head, destination),
        not must_stay_in_memory(head, destination),
        names_in_json(head, destination),
        said_in(head) if verdict.from_host else b"",
        policy,
        catalog,
    )
