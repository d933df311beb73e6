"""Heads that were read before: clients and servers repeat themselves, and the same bytes mean the same thing.

Only what llhttp accepted and every check passed is remembered, and only where Content-Length says how long the body
is, or there is none: then its end is found by counting. The number itself is left out of what is compared, and so is
the request's own name, because they are often all that changes; and so is the proof of a host of the fleet, which is
judged for each request. What was learned under one configuration is forgotten with it.
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
    from hotseat.relay.access.policy import Rules
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
    """A head without its Content-Length line, and the number on it; None where there is no such line.

    A head that had a second such line, or a chunked body, is never learned: so what is left over can only be
    recognised if this line is all the framing there is.
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
    """A head without the proof of the host that passed it on, and that proof: each is for one request alone."""
    begin = head.find(PROOF_LINE)
    if begin < 0:
        return head, b""
    end = head.find(b"\r\n", begin + len(PROOF_LINE))
    return head[:begin] + head[end:], head[begin + len(PROOF_LINE) : end]


def key_of(head: bytes) -> tuple[bytes, int | None, bytes, bytes]:
    """What of a request's head is compared, the length that it states, what the client calls it, a host's proof."""
    proven, length = split_length(head)
    named, proof = split_proof(proven)
    key, request_id = split_id(named)
    return key, length, request_id, proof


class Outline:
    """A head with a gap for its length: where the same head comes again, comparing finds out sooner than looking up."""

    __slots__ = ("_before", "_begin", "_behind", "_rest")

    def __init__(self, head: bytes) -> None:
        spelling = next(spelling for spelling in SPELLINGS if spelling in head)
        begin = head.find(spelling) + len(spelling)
        end = head.find(b"\r\n", begin)
        self._before, self._behind = head[:begin], head[end:]
        self._begin, self._rest = begin, len(head) - end

    def found_in(self, data: bytes) -> tuple[int, int] | None:
        """The length stated and where the head ends, if `data` begins with this head."""
        if not data.startswith(self._before):
            return None
        end = data.find(b"\r", self._begin, self._begin + LONGEST_NUMBER)
        number = data[self._begin : end]
        if not number.isdigit() or not data.startswith(self._behind, end):
            return None
        return int(number), end + self._rest


class Memory(Generic[Head]):
    """The last few hundred heads. Full, it starts afresh: that costs less than knowing which one is the oldest."""

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
    """What was found out about a head: who sent it, where it goes, what it may carry."""

    head: RequestHead
    destination: Destination
    verdict: Verdict
    most_bytes: Bytes
    may_spool: bool
    keep_alive: bool
    under: tuple[Rules, Catalog]
    """What it was checked against."""
    outline: Outline | None
    """None where it states no length, or must be judged anew each time."""
    names_in_json: bool
    """Is the model named in a JSON body that it must have?"""
    request_id: bytes
    """What the client called it when it was learned; empty where it did not."""
    said: bytes = b""
    """What a host of the fleet must prove for each request with this head; empty where a client sends it."""
    sent_to: Address | None = None
    sent_for: str = ""
    sent_as: bytes = b""
    """The head as it last went upstream, without its length: to this address, for a client with that one."""

    def anew(self, request_id: bytes, body: Body, client: ClientId, now: Instant) -> Request:
        return Request(request_id, self.head, self.destination, self.verdict, body, client, now, self.keep_alive, self)


def may_be_learned(head: RequestHead, destination: Destination, length: int | None) -> bool:
    """Is the length that was cut out all there is to this request's framing, and nothing to be answered before it?"""
    if head.chunked or head.http10 or head.wants_continue or b"upgrade" in head.known:
        return False
    # With a body the same head may mean the model that is named there.
    if not head.has_body and head.announces_names and destination.road is not MANAGEMENT:
        return False
    # An id that passes as it came would be taken for part of the head, and a second one before it would be lost.
    return head.length == length and head.id_header is USUAL


@dataclass(frozen=True, slots=True)
class KnownResponse:
    """An answer that is framed by its length and leaves its connection open."""

    head: ResponseHead
    plain: bytes
    """The head as it goes to a client that asks for nothing special, without its length."""
    confined: bytes
    """The same for an answer of a model server whose pages are not trusted."""
    id_header: bytes
    rest: tuple[Seconds, int]
    """How long and how often its connection may be used again."""
    outline: Outline

    def with_body(self, lines: bytes, request_id: bytes, length: int, data: bytes) -> bytes:
        """The answer under these lines, as far as it has come; without a name where the one who asked has given it."""
        if not request_id:
            return b"%bContent-Length: %d\r\n\r\n%b" % (lines, length, data)
        return b"%bContent-Length: %d\r\n%b: %b\r\n\r\n%b" % (lines, length, self.id_header, request_id, data)

    def with_length(self, length: int) -> ResponseHead:
        head, number = self.head, b"%d" % length
        fields = [*head.fields, (b"Content-Length", number)]
        return ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": number})


def known_response(lines: bytes, head: ResponseHead, rest: tuple[Seconds, int]) -> KnownResponse:
    fields = [(name, value) for name, value in head.fields if name.lower() != b"content-length"]
    # Any number will do: it says that the length is known, and is never looked at.
    bare = ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": b"0"})
    plain, confined = (
        response_bytes(bare, [], dechunk=False, close=False, http10=False, confine=confine).removesuffix(b"\r\n")
        for confine in (False, True)
    )
    return KnownResponse(bare, plain, confined, head.id_header, rest, Outline(lines))
