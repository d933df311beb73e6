"""Where a body ends: by its length, by its last chunk, or with its connection.

`take` returns what is passed on of the data, and what follows the body. llhttp follows chunks. Its callbacks only
collect: what follows from that is done after it has returned.
"""

from __future__ import annotations

import re
import sys
from itertools import chain
from typing import TYPE_CHECKING

import httptools

from hotseat.errors import ClientError, UpstreamError
from hotseat.relay.http.request_head import END, check_size

if TYPE_CHECKING:
    from hotseat.errors import HotseatError
    from hotseat.identifiers import Bytes

    Parser = httptools.HttpRequestParser | httptools.HttpResponseParser

UNTIL_CLOSED: Bytes = sys.maxsize
"""The length of a body that ends with its connection."""
MOST_OVERHEAD: Bytes = 1 << 20
"""Bytes of a response between two parts of its content: chunk sizes, extensions, trailers."""
MOST_CHUNKS = 1 << 16
SMALLEST_CHUNK: Bytes = 64
"""A request may have MOST_CHUNKS chunks of any size; beyond that, this is the minimum average: each costs a call."""
CHUNK_SIZES = {b"%x" % size: size for size in range(1, 0x1000)}
"""How servers write the sizes of the small chunks in streams."""
CHUNKED = b"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Puts llhttp before the first chunk; after the last one it accepts line ends and nothing else."""
_find_blank_lines = re.compile(END).finditer


class CountedBody:
    __slots__ = ("_left", "is_complete")
    is_between_chunks = False

    def __init__(self, length: Bytes) -> None:
        self._left = length
        self.is_complete = not length

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        content, rest = data[: self._left], data[self._left :]
        self._left -= len(content)
        self.is_complete = not self._left
        return content, rest


class _End:
    """Collects whether the body is complete."""

    is_complete = False

    def on_message_complete(self) -> None:
        self.is_complete = True


class _Content(_End):
    """Chunks may be tiny and many, so each costs only one call."""

    is_in_chunk = False
    trailers: Bytes = 0
    overhead: Bytes = 0
    """Bytes since the last content, including trailers."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def on_body(self, part: bytes) -> None:
        self.overhead = 0
        self.parts.append(part)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.trailers += len(name) + len(value)
        self.overhead += len(name) + len(value)


class _Chunks(_Content):
    def on_body(self, part: bytes) -> None:
        self.overhead = 0

    def on_chunk_header(self) -> None:
        self.is_in_chunk = True

    def on_chunk_complete(self) -> None:
        self.is_in_chunk = False


class ChunkedBody:
    """The chunks of a response, passed on as they are."""

    __slots__ = ("_found", "_parser", "_tail", "is_between_chunks", "is_complete")
    _collect: type[_Content] = _Chunks
    _llhttp: type[Parser] = httptools.HttpResponseParser
    _first_line = b"HTTP/1.1 200 OK"
    _error: type[HotseatError] = UpstreamError
    _message = "the upstream's response"

    def __init__(self) -> None:
        self._found = self._collect()
        self._parser = self._new_parser(self._found)
        self._found.trailers = self._found.overhead = 0
        self._tail = b""
        self.is_complete = False
        self.is_between_chunks = True
        """Can something be inserted as a chunk of its own?"""

    def _new_parser(self, found: _End) -> Parser:
        parser = self._llhttp(found)
        parser.feed_data(self._first_line + CHUNKED)
        return parser

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        if self.is_between_chunks:
            end = data.find(b"\r\n", 0, 5)
            size = CHUNK_SIZES.get(data[:end]) if end > 0 else None
            if size is not None and len(data) == end + size + 4 and data.endswith(b"\r\n"):
                return data, b""  # exactly one small chunk: it does not change the state of llhttp
        is_accepted, self._tail = self._feed(data), (self._tail + data[-5:])[-5:]
        if self.is_complete and not (is_accepted and self._tail.endswith(END) and self._tail[0] not in b"\r\n"):
            raise sent_more()
        self.is_between_chunks = not self._found.is_in_chunk and data.endswith(b"\r\n")
        return data, b""

    def _feed(self, data: bytes) -> bool:
        """Did llhttp accept all of it? It does not if anything but line ends follows the body."""
        found, is_accepted = self._found, True
        found.overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            is_accepted = False
            if not found.is_complete:
                raise self._error(f"{self._message} is malformed: {problem}") from None
        self.is_complete = found.is_complete
        self._check_cost(found.trailers if found.is_complete else found.overhead)
        return is_accepted

    def _check_cost(self, overhead: Bytes) -> None:
        if overhead > MOST_OVERHEAD:
            raise UpstreamError("the upstream sent too much between two chunks")


class DecodedBody(ChunkedBody):
    """The content of chunks. Trailers are dropped.

    llhttp reports that a body is complete, but not where it ends. So a second parser stays one read behind, and gets
    the last read in parts, up to the one in which the body ends.
    """

    __slots__ = ("_behind", "_end")
    _collect = _Content
    _may_add_line_ends = False

    def __init__(self) -> None:
        super().__init__()
        self.is_between_chunks = False
        self._end = _End()
        self._behind = self._new_parser(self._end)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        is_accepted = self._feed(data)
        content, self._found.parts = b"".join(self._found.parts), []
        if self.is_complete:
            return content, b"" if is_accepted and self._may_add_line_ends else data[self._end_in(data) :]
        self._behind.feed_data(data)
        return content, b""

    def _end_in(self, data: bytes) -> int:
        """Where the body ends: at a blank line, which may have begun before; but content may contain some too."""
        begin = 0
        blank_lines = (found.end() for found in _find_blank_lines(data))
        for end in chain((1, 2, 3), blank_lines):  # many requests may follow the body: look no further than needed
            self._behind.feed_data(data[begin:end])
            if self._end.is_complete:
                return end
            begin = end
        raise self._error(f"{self._message} is malformed: its body ends without a blank line")


class RequestChunks(DecodedBody):
    """Of a request, where their number is limited too."""

    __slots__ = ("_chunks", "_most_overhead", "_size")
    _llhttp = httptools.HttpRequestParser
    _first_line = b"POST / HTTP/1.1\r\nHost: x"
    _error = ClientError
    _message = "the request"
    _may_add_line_ends = True

    def __init__(self, most_overhead: Bytes) -> None:
        super().__init__()
        self._most_overhead = most_overhead
        self._chunks = self._size = 0

    def _check_cost(self, overhead: Bytes) -> None:
        check_size(overhead, self._most_overhead)
        self._chunks += len(self._found.parts)
        self._size += sum(map(len, self._found.parts))
        if self._chunks > MOST_CHUNKS + self._size // SMALLEST_CHUNK:
            text = f"the body came in {self._chunks} chunks of {round(self._size / self._chunks)} bytes on average"
            raise ClientError(f"{text}. Send larger chunks, {SMALLEST_CHUNK} bytes at least, or a length.")


def sent_more() -> UpstreamError:
    return UpstreamError("the upstream sent data after its response")
