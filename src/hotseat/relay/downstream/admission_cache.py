"""A memo of parsing and admitting heads, because clients send the same head again and again.

The cache key omits the length and the request id, which are often all that changes, and the proof of a fleet host,
which is checked for each request. What is in the cache holds for one policy and one catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.errors import HotseatError
from hotseat.fleet.host_headers import PROOF
from hotseat.relay.downstream.admission import NotAdmitted, admit
from hotseat.relay.http.head_cache import HeadTemplate, Memory, split_length
from hotseat.relay.http.request_head import check_size, parse_request_head
from hotseat.relay.http.request_id import USUAL, split_id
from hotseat.relay.routing.model_name import MANAGEMENT

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.downstream.admission import Admission

PROOF_LINE = b"\r\n%b: " % PROOF
"""As our own hosts write it."""


class HeadCache:
    def __init__(self, policy: Policy, catalog: Catalog) -> None:
        self._policy, self._catalog = policy, catalog
        self.known: Memory[Admission] = Memory()

    def admission(self, lines: bytes, policy: Policy, catalog: Catalog) -> tuple[Admission, int | None, bytes]:
        """What follows from a complete head, its Content-Length, and its request id; raises NotAdmitted."""
        if self._policy is not policy or self._catalog is not catalog:
            self._policy, self._catalog, self.known = policy, catalog, Memory()
        key, length, request_id, proof = key_of(lines)
        found = self.known.recall(key)
        if found is not None and found.allows(length) and (not found.said or policy.is_proven_again(found.said, proof)):
            return found, length, request_id
        admission = _admitted(lines, policy, catalog)
        if _means_the_same_again(admission, length, request_id, proof):
            admission.template = None if length is None or admission.said else HeadTemplate(lines)
            self.known.learn(key, admission)
        return admission, admission.head.length, admission.head.request_id


def key_of(lines: bytes) -> tuple[bytes, int | None, bytes, bytes]:
    """The cache key of a head, its length, its request id, and a host's proof."""
    proven, length = split_length(lines)
    named, proof = split_proof(proven)
    key, request_id = split_id(named)
    return key, length, request_id, proof


def split_proof(lines: bytes) -> tuple[bytes, bytes]:
    """A head without the proof of the forwarding host, and the proof, which is valid for one request."""
    begin = lines.find(PROOF_LINE)
    if begin < 0:
        return lines, b""
    end = lines.find(b"\r\n", begin + len(PROOF_LINE))
    return lines[:begin] + lines[end:], lines[begin + len(PROOF_LINE) : end]


def _admitted(lines: bytes, policy: Policy, catalog: Catalog) -> Admission:
    head = None
    try:
        parsed = parse_request_head(lines)
        check_size(len(lines), policy.limits.header)
        head = parsed
        outcome = admit(head, policy, catalog)
    except HotseatError as error:
        raise NotAdmitted(head, error) from None
    if isinstance(outcome, bytes):
        raise NotAdmitted(head, outcome)
    return outcome


def _means_the_same_again(admission: Admission, length: int | None, request_id: bytes, proof: bytes) -> bool:
    """Is everything that `key_of` cut out exactly what the parser found, and does nothing else vary?"""
    head = admission.head
    if head.is_websocket:  # its key is a new one each time
        return False
    # With a body, the same head may mean the model named there.
    if not head.has_body and head.announces_names and admission.destination.kind is not MANAGEMENT:
        return False
    # An id that passes unchanged would be taken for part of the head, and a second one before it would be lost.
    is_cut_out = head.length == length and head.id_header is USUAL and head.request_id == request_id
    return is_cut_out and head.known.get(PROOF, b"") == proof
