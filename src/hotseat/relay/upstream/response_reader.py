"""Reads one response after another from an upstream: drops interim heads, parses the head, follows the body to its end.

Servers repeat themselves, so parsed heads are kept, and a new head is first compared with the last one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import UpstreamError
from hotseat.relay.exchange.token_usage import FIRST_PIECES, LARGE, MOST_PIECES, ends_of
from hotseat.relay.http.body_framing import UNTIL_CLOSED, ChunkedBody, CountedBody, DecodedBody, sent_more
from hotseat.relay.http.fields import SWITCHING
from hotseat.relay.http.head_cache import HeadTemplate, split_length
from hotseat.relay.http.response_head import CLOSE, LAST_CHUNK, LENGTH, malformed, parse_response_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Bytes
    from hotseat.relay.http.head_cache import Memory
    from hotseat.relay.http.response_head import ResponseHead

LARGEST_HEAD = 64 << 10
MOST_INTERIM_HEADS = 16
INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
"""A 101 is not interim."""
NONE_YET, _ = parse_response_head(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
_BARE_LF = re.compile(rb"(?<!\r)\n")


class Receiver(Protocol):
    """Takes a response while it arrives."""

    @property
    def needs_decoded_body(self) -> bool: ...
    @property
    def write(self) -> Callable[[bytes], None]: ...  # takes the body after its first part, and what a tunnel carries
    def switched(self, head: ResponseHead, data: bytes) -> None: ...  # to another protocol
    def head_received(self, head: ResponseHead, length: Bytes | None, data: bytes, *, is_complete: bool) -> None:
        """The head, and as much of the body as arrived with it."""


class ResponseReader:
    __slots__ = (
        "_body", "_heads", "_interim_heads", "_partial", "expects_body", "has_begun", "head", "pieces", "size",
    )  # fmt: skip

    def __init__(self, heads: Memory[ResponseHead]) -> None:
        self._heads = heads
        self.head: ResponseHead = NONE_YET
        """Of the current response, or of the last one."""
        self._body: CountedBody | ChunkedBody | DecodedBody | None = None
        self._partial = b""
        """The part of a head that has arrived."""
        self._interim_heads = 0
        self.expects_body = True
        """False for a response to HEAD."""
        self.has_begun = False
        self.pieces: list[bytes] = []
        """The first and last parts, long ones shortened, for token counts. A deque is ten times as large."""
        self.size: Bytes = 0
        """Of the body of the current response as far as it came, or of the last one."""

    def finish(self) -> list[bytes]:
        """The next response is another one; returns the first and last parts of this one."""
        self._body = None
        self._interim_heads = 0
        self.has_begun = False
        pieces, self.pieces = self.pieces, []
        return pieces

    @property
    def is_between_chunks(self) -> bool:
        return self._body is not None and self._body.is_between_chunks

    @property
    def ends_with_connection(self) -> bool:
        """Is the end of the connection the end of the response?"""
        return self._body is not None and self.head.body_end is CLOSE

    def feed(self, data: bytes, receiver: Receiver) -> bool:
        """Returns whether the response is complete."""
        body = self._body
        if body is None:
            return self._feed_head(data, receiver)
        pieces = self.pieces
        pieces.append(data if len(data) <= LARGE else ends_of(data))
        if len(pieces) > MOST_PIECES:
            del pieces[FIRST_PIECES]
        self.size += len(data)
        relayed, rest = body.take(data)
        if rest:
            raise sent_more()
        receiver.write(relayed)
        return body.is_complete

    # Heads

    def _feed_head(self, data: bytes, receiver: Receiver) -> bool:
        last = self.head
        if last.template is not None and not self.has_begun:
            found = last.template.found_in(data)
            if found is not None:
                self.has_begun = True
                return self._begin(last, found[0], data[found[1] :], receiver)
        self.has_begun = True
        data = self._without_interim_heads(self._partial + data)
        end = data.find(b"\r\n\r\n") + 4
        if (end if end >= 4 else len(data)) > LARGEST_HEAD:
            raise UpstreamError(f"the upstream's response head is larger than {LARGEST_HEAD} bytes")
        if end < 4:
            _check_line_ends(data)  # or its head might never be complete
            self._partial = data
            return False
        self._partial = b""
        head, length = self._parsed(data[:end])
        return self._begin(head, length, data[end:], receiver)

    def _without_interim_heads(self, data: bytes) -> bytes:
        """Remove 100, 102 and 103: they are between the upstream and us."""
        while data.startswith(INTERIM) and data[9:12] != b"101" and (end := data.find(b"\r\n\r\n")) >= 0:
            _check_line_ends(data[:end])
            self._interim_heads += 1
            if self._interim_heads > MOST_INTERIM_HEADS:
                raise UpstreamError(f"the upstream sent more than {MOST_INTERIM_HEADS} interim responses")
            data = data[end + 4 :]
        return data

    def _parsed(self, lines: bytes) -> tuple[ResponseHead, Bytes | None]:
        key, length = split_length(lines)
        head = self._heads.recall(key)
        # The key does not show whether a length was cut out of it.
        if head is not None and head.body_end is not (LENGTH if length is None else LAST_CHUNK):
            return head, length
        head, stated = parse_response_head(lines)
        if stated == length and head.body_end is not CLOSE:
            if head.body_end is LENGTH:
                head.template = HeadTemplate(lines)
            self._heads.learn(key, head)
        return head, stated

    # Bodies

    def _begin(self, head: ResponseHead, length: Bytes | None, data: bytes, receiver: Receiver) -> bool:
        """Check the data that came with the head first: an error can still be sent with a status."""
        self.head, is_complete = head, True
        if head.status == SWITCHING:
            self._body = CountedBody(UNTIL_CLOSED)
            receiver.switched(head, data)
            return False
        if not self.expects_body:
            data = b""
        elif length != len(data) or head.body_end is not LENGTH:  # nearly only streams
            body = self._body = _body_of(head, length, decoded=receiver.needs_decoded_body)
            data, rest = body.take(data)
            if rest:
                raise sent_more()
            is_complete = body.is_complete
        self.size = len(data)
        self.pieces.append(data if len(data) <= LARGE else ends_of(data))
        receiver.head_received(head, length, data, is_complete=is_complete)
        return is_complete


def _check_line_ends(head: bytes) -> None:
    if _BARE_LF.search(head):
        raise malformed("a line does not end with CR LF")


def _body_of(head: ResponseHead, length: Bytes | None, *, decoded: bool) -> CountedBody | ChunkedBody | DecodedBody:
    if head.body_end is LAST_CHUNK:
        return DecodedBody() if decoded else ChunkedBody()
    if head.body_end is CLOSE:
        return CountedBody(UNTIL_CLOSED)
    return CountedBody(length or 0 if head.body_end is LENGTH else 0)
