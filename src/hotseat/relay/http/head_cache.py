"""A cache of parsed heads: clients and servers repeat themselves, and the same bytes mean the same.

It stores only heads that llhttp and every check accepted, and only with a Content-Length or without a body: then the
end is found by counting. The cache key omits the length and the request id, which are often all that changes, and the
proof of a fleet host, which is checked for each request. A configuration change discards the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from hotseat.fleet.host_headers import PROOF
from hotseat.relay.exchange.request import Request
from hotseat.relay.http.head import ResponseHead, response_bytes
from hotseat.relay.http.request_id import USUAL, split_id
from hotseat.relay.routing.model_name import MANAGEMENT

if TYPE_CHECKING:
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import Address, Bytes, ClientId, Instant, Seconds
    from hotseat.relay.access.api_keys import Verdict
    from hotseat.relay.access.policy import Policy
    from hotseat.relay.http.body import Body
    from hotseat.relay.http.head import RequestHead
    from hotseat.relay.routing.model_name import Destination

MOST_KNOWN = 512
LONGEST_KNOWN: Bytes = 4 << 10
LONGEST_NUMBER = 19

SPELLINGS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
PROOF_LINE = b"\r\n%b: " % PROOF
"""As our own hosts write it."""

Head = TypeVar("Head")


def split_length(head: bytes) -> tuple[bytes, int | None]:
    """A head without its Content-Length line, and the length; None if there is no such line.

    A head with a second such line or a chunked body is never cached, so the remaining bytes can be found in the cache
    only if this line is all the framing there is.
    """
    for spelling in SPELLINGS:
        begin = head.find(spelling)
        if begin >= 0:
            end = head.find(b"\r\n", begin + len(spelling))
            number = head[begin + len(spelling) : end]
            if number.isdigit() and len(number) < LONGEST_NUMBER:
                return head[:begin] + head[end:], int(number)
    return head, None


def split_proof(head: bytes) -> tuple[bytes, bytes]:
    """A head without the proof of the forwarding host, and the proof, which is valid for one request."""
    begin = head.find(PROOF_LINE)
    if begin < 0:
        return head, b""
    end = head.find(b"\r\n", begin + len(PROOF_LINE))
    return head[:begin] + head[end:], head[begin + len(PROOF_LINE) : end]


def key_of(head: bytes) -> tuple[bytes, int | None, bytes, bytes]:
    """The cache key of a request head, its length, its request id, and a host's proof."""
    proven, length = split_length(head)
    named, proof = split_proof(proven)
    key, request_id = split_id(named)
    return key, length, request_id, proof


class HeadTemplate:
    """A head with a gap for its length: comparing with the previous head is faster than a lookup."""

    __slots__ = ("_before", "_begin", "_behind", "_rest")

    def __init__(self, head: bytes) -> None:
        spelling = next(spelling for spelling in SPELLINGS if spelling in head)
        begin = head.find(spelling) + len(spelling)
        end = head.find(b"\r\n", begin)
        self._before, self._behind = head[:begin], head[end:]
        self._begin, self._rest = begin, len(head) - end

    def found_in(self, data: bytes) -> tuple[int, int] | None:
        """The stated length and the end of the head, if `data` begins with this head."""
        if not data.startswith(self._before):
            return None
        end = data.find(b"\r", self._begin, self._begin + LONGEST_NUMBER)
        number = data[self._begin : end]
        if not number.isdigit() or not data.startswith(self._behind, end):
            return None
        return int(number), end + self._rest


class Memory(Generic[Head]):
    """A few hundred heads. When full, it is cleared: that costs less than tracking the oldest."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self.recall = self._known.get

    def learn(self, key: bytes, head: Head) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if len(key) <= LONGEST_KNOWN:
            self._known[key] = head


@dataclass(slots=True)
class KnownRequest:
    """The results for a head: who sent it, where it goes, what it may carry."""

    head: RequestHead
    destination: Destination
    verdict: Verdict
    most_bytes: Bytes
    may_spool: bool
    keep_alive: bool
    under: tuple[Policy, Catalog]
    """What it was checked against."""
    outline: HeadTemplate | None
    """None if it states no length, or must be checked each time."""
    names_in_json: bool
    """Does it require a JSON body that names the model?"""
    request_id: bytes
    """The client's id when it was cached; empty if it sent none."""
    said: bytes = b""
    """What a fleet host must prove for each request with this head; empty for a client's."""
    sent_to: Address | None = None
    sent_for: str = ""
    sent_as: bytes = b""
    """The last upstream head without its length: for this address and this client address."""

    def anew(self, request_id: bytes, body: Body, client: ClientId, now: Instant) -> Request:
        return Request(request_id, self.head, self.destination, self.verdict, body, client, now, self.keep_alive, self)


def may_be_learned(head: RequestHead, destination: Destination, length: int | None) -> bool:
    """Is the removed length all of this request's framing, and is no interim response expected?"""
    if head.chunked or head.http10 or head.wants_continue or b"upgrade" in head.known:
        return False
    # With a body, the same head may mean the model named there.
    if not head.has_body and head.announces_names and destination.kind is not MANAGEMENT:
        return False
    # An id that passes unchanged would be taken for part of the head, and a second one before it would be lost.
    return head.length == length and head.id_header is USUAL


@dataclass(frozen=True, slots=True)
class KnownResponse:
    """A response that is framed by its length and keeps its connection open."""

    head: ResponseHead
    plain: bytes
    """The head for a client without special needs, without its length."""
    confined: bytes
    """The same for a model server whose pages are not trusted."""
    id_header: bytes
    rest: tuple[Seconds, int]
    """How long and how often its connection may be reused."""
    outline: HeadTemplate

    def with_body(self, lines: bytes, request_id: bytes, length: int, data: bytes) -> bytes:
        """The response with these header lines, as far as received; without an id if the caller gave it."""
        if not request_id:
            return b"%bContent-Length: %d\r\n\r\n%b" % (lines, length, data)
        return b"%bContent-Length: %d\r\n%b: %b\r\n\r\n%b" % (lines, length, self.id_header, request_id, data)

    def with_length(self, length: int) -> ResponseHead:
        head, number = self.head, b"%d" % length
        fields = [*head.fields, (b"Content-Length", number)]
        return ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": number})


def known_response(lines: bytes, head: ResponseHead, rest: tuple[Seconds, int]) -> KnownResponse:
    fields = [(name, value) for name, value in head.fields if name.lower() != b"content-length"]
    # The value is never read; it only shows that the length is known.
    bare = ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": b"0"})
    plain, confined = (
        response_bytes(bare, [], dechunk=False, close=False, http10=False, confine=confine).removesuffix(b"\r\n")
        for confine in (False, True)
    )
    return KnownResponse(bare, plain, confined, head.id_header, rest, HeadTemplate(lines))
