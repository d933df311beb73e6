"""Follows the body of a response to its end: by its length, by its chunks, or to the end of the connection.

llhttp follows chunks, and accepts more than we do: bytes that could pass for the client's next response, or that never
end without being a body, raise `UpstreamError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import httptools

from hotseat.errors import UpstreamError

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

MOST_BETWEEN_CHUNKS: Bytes = 1 << 20
"""Chunk sizes, extensions and trailers. More than one read, which may end just after a chunk."""
CHUNK_SIZES = {b"%x" % size: size for size in range(1, 1024)}
"""How servers write the sizes of the small chunks in streams."""
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
"""The head was parsed before; this puts llhttp at the beginning of a chunked body."""


class ResponseBody(Protocol):
    is_complete: bool
    is_between_chunks: bool
    """Can something be inserted as a chunk of its own?"""

    def take(self, data: bytes) -> bytes:
        """Follow this part; returns what the client gets of it. Raises for bytes beyond the end."""
        ...


class CountedBody:
    __slots__ = ("_left", "is_complete")
    is_between_chunks = False

    def __init__(self, length: Bytes) -> None:
        self._left = length
        self.is_complete = length == 0

    def take(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise sent_more()
        self.is_complete = not self._left
        return data


class CloseDelimitedBody:
    """Only the end of the connection ends it."""

    __slots__ = ()
    is_complete = is_between_chunks = False

    def take(self, data: bytes) -> bytes:
        return data


class ChunkedBody:
    """Relayed as it is, chunk by chunk."""

    __slots__ = ("_between", "_in_chunk", "_parser", "_tail", "is_between_chunks", "is_complete")

    def __init__(self) -> None:
        self._in_chunk = False
        self._between: Bytes = 0
        self._tail = b""
        self.is_between_chunks = True
        self.is_complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(CHUNKED_HEAD)

    def take(self, data: bytes) -> bytes:
        if not self._is_whole_chunk(data):
            self._follow(data)
        return data

    def _is_whole_chunk(self, data: bytes) -> bool:
        """Is this exactly one small chunk, from its size to its line end? Between chunks it changes no state."""
        if not self.is_between_chunks:
            return False
        end = data.find(b"\r\n", 0, 5)
        size = CHUNK_SIZES.get(data[:end])
        return size is not None and len(data) == end + size + 4 and data.endswith(b"\r\n")

    def _follow(self, data: bytes) -> None:
        self._feed(data)
        self._tail = (self._tail + data[-5:])[-5:]
        if self.is_complete:  # llhttp accepts line ends after the last chunk
            if not self._tail.endswith(b"\r\n\r\n") or self._tail[0] in b"\r\n":
                raise sent_more()
        elif not self._in_chunk:
            self._count_between(len(data))
        self.is_between_chunks = not self._in_chunk and data.endswith(b"\r\n")

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            if isinstance(problem, httptools.HttpParserCallbackError) and (cause := problem.__context__):
                raise cause from None  # a callback raised: extra data, or a bug of ours
            raise UpstreamError(f"the upstream's response is malformed: {problem}") from problem

    def _count_between(self, size: Bytes) -> None:
        self._between += size
        if self._between > MOST_BETWEEN_CHUNKS:
            raise UpstreamError("the upstream sent too much between two chunks")

    # llhttp

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise sent_more()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A trailer, or the field of CHUNKED_HEAD."""
        self._count_between(len(name) + len(value))

    def on_chunk_header(self) -> None:
        self._in_chunk = True
        self._between = 0

    def on_chunk_complete(self) -> None:
        self._in_chunk = False
        self._between = 0

    def on_message_complete(self) -> None:
        self.is_complete = True


class DecodedBody(ChunkedBody):
    """Without its chunks, for clients that do not support them. Its own class: a callback per part costs time."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        super().__init__()

    def take(self, data: bytes) -> bytes:
        self._follow(data)
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)


def sent_more() -> UpstreamError:
    return UpstreamError("the upstream sent data after its response")
