"""Heads that were read before: clients and servers repeat themselves, and the same bytes mean the same thing.

Only what llhttp accepted and every check passed is remembered, and only where Content-Length says how long the body
is, or there is none: then its end is found by counting. The number itself is left out of what is compared, because it
is often all that changes. What was learned under one configuration is forgotten with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from hotseat.relay.body import Body
from hotseat.relay.head import ResponseHead, framed, response_bytes
from hotseat.relay.request import Request

if TYPE_CHECKING:
    from hotseat.relay.head import RequestHead
    from hotseat.relay.keys import Verdict
    from hotseat.relay.naming import Destination
    from hotseat.terms import Address, Bytes, ClientId, Instant, Seconds

MOST_KNOWN = 512
LONGEST_KNOWN: Bytes = 4 << 10
LONGEST_NUMBER = 19

SPELLINGS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")

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
    sent_to: tuple[Address, str] | None = None
    sent_as: bytes = b""
    """The head as it last went upstream, without its length: for this address and this client's address."""

    def anew(self, client: ClientId, now: Instant) -> Request:
        body = Body(may_spool=self.may_spool)
        return Request(self.head, self.destination, self.verdict, body, client, now, self.keep_alive, self)


def may_be_learned(head: RequestHead, length: int | None) -> bool:
    """Is the length that was cut out all there is to this request's framing, and nothing to be answered before it?"""
    if head.chunked or head.http10 or head.wants_continue or b"upgrade" in head.known:
        return False
    return head.length == length


@dataclass(frozen=True, slots=True)
class KnownResponse:
    """An answer that is framed by its length and leaves its connection open."""

    head: ResponseHead
    plain: bytes
    """The head as it goes to a client that asks for nothing special, without its length."""
    rest: tuple[Seconds, int]
    """How long and how often its connection may be used again."""

    def bytes_for(self, length: int) -> bytes:
        return framed(self.plain, length)

    def with_length(self, length: int) -> ResponseHead:
        head, number = self.head, b"%d" % length
        fields = [*head.fields, (b"Content-Length", number)]
        return ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": number})


def known_response(head: ResponseHead, rest: tuple[Seconds, int]) -> KnownResponse:
    fields = [(name, value) for name, value in head.fields if name.lower() != b"content-length"]
    # Any number will do: it says that the length is known, and is never looked at.
    bare = ResponseHead(head.status, head.reason, fields, {**head.known, b"content-length": b"0"})
    plain = response_bytes(bare, [], dechunk=False, close=False, http10=False)
    return KnownResponse(bare, plain.removesuffix(b"\r\n"), rest)
