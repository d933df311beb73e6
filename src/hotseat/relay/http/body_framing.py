"""Where a request's body ends: by its length, or by its last chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools

from hotseat.errors import ClientError
from hotseat.relay.http.head_parser import check_size, malformed

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

MOST_CHUNKS = 1 << 16
SMALLEST_CHUNK: Bytes = 64
"""A body may have MOST_CHUNKS chunks of any size; beyond that, this is the minimum average: each costs a call."""
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Tells llhttp that chunks follow, and that nothing may come after them: that is the next request's."""
BLANK_LINE = b"\r\n\r\n"
"""Ends the last chunk or the trailers."""


class CountedBody:
    """A body with a Content-Length."""

    def __init__(self, length: Bytes) -> None:
        self._left = length
        self.is_complete = not length

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """The content in `data`, and what follows the body."""
        content, rest = data[: self._left], data[self._left :]
        self._left -= len(content)
        self.is_complete = not self._left
        return content, rest


class ChunkedBody:
    """A body in chunks, whose trailers are dropped.

    llhttp reports that a body is complete, but not where it ends. So a second parser stays one read behind: if other
    bytes follow the body in the same read, it gets that read in parts, up to the one in which the body ends.
    """

    def __init__(self, most_overhead: Bytes) -> None:
        """`most_overhead`: the limit of bytes between two bytes of content, which are chunk sizes and trailers."""
        self._most_overhead = most_overhead
        self._found, self._end = _Content(), _End()
        self._parser, self._behind = _parser_of_chunks(self._found), _parser_of_chunks(self._end)
        self._found.trailers = self._found.overhead = 0
        self._size: Bytes = 0
        self._tail = b""
        """The last bytes of the previous read, since the end may arrive in two reads."""

    @property
    def is_complete(self) -> bool:
        return self._found.is_complete

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """The content in `data`, and what follows the body; raises for what is malformed or costs too much."""
        found, rest = self._found, b""
        found.overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            if not found.is_complete:
                raise malformed(problem) from None
            rest = data[self._end_in(data) :]
        if not found.is_complete:
            self._behind.feed_data(data)
            self._tail = (self._tail + data[-3:])[-3:]
        self._size += sum(map(len, found.parts))
        self._check_cost()
        content, found.parts = b"".join(found.parts), []
        return content, rest

    def _end_in(self, data: bytes) -> int:
        """Where the body ends: at a blank line, but content may contain some too."""
        searched, before = self._tail + data, len(self._tail)
        begin, at = 0, searched.find(BLANK_LINE)
        while at >= 0:
            end = at + len(BLANK_LINE) - before
            self._behind.feed_data(data[begin:end])
            if self._end.is_complete:
                return end
            begin, at = end, searched.find(BLANK_LINE, at + len(BLANK_LINE))
        raise ClientError("the request is malformed: its body ends without a blank line")

    def _check_cost(self) -> None:
        found = self._found
        check_size(found.trailers if found.is_complete else found.overhead, self._most_overhead)
        found.chunks += len(found.parts)
        if found.chunks > MOST_CHUNKS + self._size // SMALLEST_CHUNK:
            text = f"the body came in {found.chunks} chunks of {self._size // found.chunks} bytes on average"
            raise ClientError(f"{text}. Send larger chunks, {SMALLEST_CHUNK} bytes at least, or a length.")


class _End:
    """Notices the end of a body."""

    is_complete = False

    def on_message_complete(self) -> None:
        self.is_complete = True


class _Content(_End):
    """Collects what llhttp finds in a body. Chunks may be tiny and many, so each costs as little as possible."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.chunks = 0
        self.trailers: Bytes = 0
        self.overhead: Bytes = 0
        """Bytes since the last content, including trailers."""

    def on_body(self, part: bytes) -> None:
        self.overhead = 0
        self.parts.append(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.trailers += len(name) + len(value)
        self.overhead += len(name) + len(value)


def _parser_of_chunks(found: _End) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(found)
    parser.feed_data(CHUNKED_HEAD)
    return parser
