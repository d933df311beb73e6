"""Parses the head of a request and checks whether it may be served, and remembers the result for the same head.

Except for proofs of fleet hosts, each of which is accepted once, what follows from a head is a pure function of its
bytes under one policy and one catalog, and of whether a trusted proxy sent it. Clients send the same head again and
again; often only its length, its request id and its trace change, so the cache key omits them, and the proof of a fleet
host, which is checked for each request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from hotseat.catalog.named_models import Selector
from hotseat.errors import HotseatError, TooLarge
from hotseat.fleet.host_headers import PROOF
from hotseat.relay.access.host_requests import destination_for_host, said_in
from hotseat.relay.access.own_pages import moved
from hotseat.relay.http.head_cache import HeadTemplate, Memory, split_length
from hotseat.relay.http.request_head import MOST_FIELDS, check_expectation, check_size, parse_request_head
from hotseat.relay.http.request_id import USUAL, split_id
from hotseat.relay.routing.model_name import MANAGEMENT, MODEL_IN_BODY, destination_for, must_name_model
from hotseat.tracing import traceparent

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Address, Bytes
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination

LONGEST_REPEATED: Bytes = 2 << 10
MOST_REPEATED = 32
"""Size and fields of a head that its connection keeps: with less than 12 KiB of memory for each idle connection."""
MOST_CUT_OUT = 4
"""Lines that a key omits: the length, the proof, the trace and the request id."""
_find_proof = re.compile(rb"\r\n%b: ([0-9]{1,15} [0-9a-f]{1,32}-[0-9]{1,15} [0-9a-f,]{1,260})(?=\r\n)" % PROOF).search
"""As our own hosts write it: nothing else may be cut out of a head before it is parsed."""


class Admission(Struct):
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
    trace: bytes = b""
    """The valid traceparent of this head, which may be another one in the next request."""
    template: HeadTemplate | None = None
    """Finds the same head with another length; None if it has no body, is large, or must be checked each time."""
    sent_to: Address | None = None
    sent_for: tuple[str, str] = ("", "")
    sent_as: bytes = b""
    """The last upstream head without its length: for this address, and this client address and key."""

    def of_one_request(self, head: RequestHead, destination: Destination) -> Admission:
        """A copy for a request that is changed on its way; its upstream head is its own."""
        return replace(self, head=head, destination=destination, sent_to=None, sent_for=("", ""), sent_as=b"")


class NotAdmitted(Exception):
    """A request that goes no further than its head: it is refused, or we answer it ourselves."""

    def __init__(self, head: RequestHead | None, outcome: HotseatError | bytes) -> None:
        super().__init__(outcome)
        self.head = head
        """None if it cannot be read."""
        self.outcome = outcome


class HeadCache:
    def __init__(self, policy: Policy, catalog: Catalog) -> None:
        self._policy, self._catalog = policy, catalog
        self.known: Memory[Admission] = Memory()
        self._of_proxies: Memory[Admission] = Memory()
        """The same bytes mean something else if a trusted proxy sends them."""

    def admission(
        self, lines: bytes, policy: Policy, catalog: Catalog, *, is_from_proxy: bool = False
    ) -> tuple[Admission, int | None, bytes, bytes]:
        """What follows from a complete head, its Content-Length, its request id and trace; raises NotAdmitted."""
        if self._policy is not policy or self._catalog is not catalog:
            self._policy, self._catalog = policy, catalog
            self.known, self._of_proxies = Memory(), Memory()
        known = self._of_proxies if is_from_proxy else self.known
        rest, length = split_length(lines)
        rest, proof = _split_proof(rest)
        rest, trace = traceparent.split(rest)
        key, request_id = split_id(rest)
        found = known.recall(key)
        if found is not None and _is_valid_again(found, length, proof):
            return found, length, request_id, trace
        admission = _admitted(lines, policy, catalog, is_from_proxy)
        admission.trace = trace if _is_its_trace(admission.head, trace) else b""
        if _means_the_same_again(admission, length, request_id, proof):
            is_small = len(lines) <= LONGEST_REPEATED and len(admission.head.fields) <= MOST_REPEATED
            if length and is_small and not admission.said:
                admission.template = HeadTemplate(lines)
            known.learn(key, admission)
        return admission, admission.head.length, admission.head.request_id, admission.trace


def _split_proof(lines: bytes) -> tuple[bytes, bytes]:
    """A head without the proof of the forwarding host, and the proof, which is valid for one request."""
    found = _find_proof(lines)
    return (lines, b"") if found is None else (lines[: found.start()] + lines[found.end() :], found[1])


def _is_valid_again(found: Admission, length: int | None, proof: bytes) -> bool:
    if bool(length) is not bool(found.head.length):  # without a body, the same head may mean another model
        return False
    if length is not None and (length > found.most_bytes or found.head.chunked):
        return False
    return not found.said or found.policy.is_proven_again(found.said, proof)


def _means_the_same_again(admission: Admission, length: int | None, request_id: bytes, proof: bytes) -> bool:
    """Is everything that was cut out for the key exactly what the parser found, and does nothing else vary?"""
    head = admission.head
    # A websocket's key is a new one each time; with a length it is none.
    if head.method == b"GET" and b"upgrade" in head.options:
        return False
    if len(head.fields) > MOST_FIELDS - MOST_CUT_OUT:  # the next one may have more, and too many
        return False
    if traceparent.NAME in head.known and not admission.trace:  # it passes unchanged
        return False
    # An id that passes unchanged would be taken for part of the head, and a second one before it would be lost.
    is_cut_out = head.length == length and head.id_header is USUAL and head.request_id == request_id
    return is_cut_out and head.known.get(PROOF, b"") == proof


def _is_its_trace(head: RequestHead, trace: bytes) -> bool:
    """Did the parser find this one, and no other?"""
    names = [name.lower() for name, _ in head.fields]
    return head.known.get(traceparent.NAME) == trace and names.count(traceparent.NAME) == 1


def _admitted(lines: bytes, policy: Policy, catalog: Catalog, is_from_proxy: bool) -> Admission:
    head = None
    try:
        parsed = parse_request_head(lines)
        check_size(len(lines), policy.limits.header)
        head = parsed
        head.is_from_proxy = is_from_proxy
        return admit(head, policy, catalog)
    except HotseatError as error:
        raise NotAdmitted(head, error) from None


def admit(head: RequestHead, policy: Policy, catalog: Catalog) -> Admission:
    """Check a head before anything has an effect; raises NotAdmitted with our own answer to a preflight or a page."""
    check_expectation(head)
    policy.check_sender(head)
    if head.label and not head.is_of_browser and head.label not in catalog.labels.models:
        head.label = ""  # containers and proxies have such names for hotseat itself
    if (preflight := policy.cors.preflight(head)) is not None:
        raise NotAdmitted(head, preflight)
    verdict = policy.identify(head)
    passed_on = destination_for_host(head, catalog, policy.paths) if verdict.from_host else None
    destination = passed_on or destination_for(head, catalog, policy.paths)
    policy.check_may_ask(verdict, destination)
    policy.cors.check_destination(head, destination)
    if policy.moves_pages and (answer := moved(head, destination, catalog)) is not None:
        raise NotAdmitted(head, answer)
    in_memory = _must_stay_in_memory(head, destination)
    most = policy.limits.json_body if in_memory else policy.limits.body
    if destination.kind is MANAGEMENT:
        most = min(destination.rule.most_bytes, policy.limits.body)
    if head.length is not None and head.length > most:
        raise too_large(most, destination)
    said = said_in(head) if verdict.from_host else b""
    in_json = _names_in_json(head, destination)
    return Admission(head, destination, verdict, most, not in_memory, in_json, said, policy, catalog)


def _must_stay_in_memory(head: RequestHead, destination: Destination) -> bool:
    """JSON that is read or changed is decoded as a whole; forms and opaque uploads can stay on disk."""
    named = destination.named_model
    # A selector's targets each get their own name.
    is_changed = named is not None and (isinstance(named, Selector) or bool(named.changes))
    if destination.kind is not MODEL_IN_BODY and not is_changed:
        return False
    return head.boundary is None and (destination.target.startswith(b"/v1/") or head.is_json)


def _names_in_json(head: RequestHead, destination: Destination) -> bool:
    is_plain = head.boundary is None and b"content-encoding" not in head.known
    return is_plain and destination.kind is MODEL_IN_BODY and must_name_model(head, destination)


def too_large(most: Bytes, destination: Destination) -> TooLarge:
    is_ours = destination.kind is MANAGEMENT and most == destination.rule.most_bytes
    advice = "This route takes no more." if is_ours else "Raise limits.body or limits.jsonBody, or send less."
    return TooLarge(f"the body is larger than {most} bytes. {advice}")
