"""One upstream response as llhttp reads it: its head, the framing of its body, its end.

Only responses without a cached head come here. llhttp follows the framing and accepts more than we do: bytes that could
pass for the client's next response, or that never end without being a body, raise `UpstreamError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools

from hotseat.errors import UpstreamError
from hotseat.relay.http.head import SWITCHING, read_response_head

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes
    from hotseat.relay.http.head import Field, ResponseHead

MOST_BETWEEN_CHUNKS: Bytes = 1 << 20
"""Chunk sizes, extensions and trailers. More than one read, which may end just after a chunk."""
CHUNK_SIZES = {b"%x" % size: size for size in range(1, 1024)}
"""How servers write the sizes of the small chunks in streams."""


class Switched(Exception):
    """The upstream uses another protocol from here on; this was its head."""

    def __init__(self, head: ResponseHead) -> None:
        super().__init__()
        self.head = head


class Answer:
    __slots__ = (
        "_between",
        "_fields",
        "_has_head",
        "_in_chunk",
        "_is_chunked",
        "_left",
        "_parser",
        "_reason",
        "_tail",
        "is_between_chunks",
        "is_complete",
        "keeps_alive",
    )

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._fields: list[Field] = []
        self._reason = b""
        self._has_head = self._is_chunked = self._in_chunk = False
        self._left: Bytes | None = None
        self._between: Bytes = 0
        self._tail = b""
        self.is_between_chunks = False
        self.is_complete = False
        self.keeps_alive = False
        """May its connection be reused? Known when it is complete."""

    # Called by the connection

    def read_head(self, data: bytes) -> ResponseHead:
        try:
            self._feed(data)
        except httptools.HttpParserUpgrade:
            raise Switched(read_response_head(SWITCHING, self._reason, self._fields)) from None
        head = read_response_head(self._parser.get_status_code(), self._reason, self._fields)
        self._left = head.length
        self._is_chunked = head.is_chunked
        self.is_between_chunks = head.is_chunked and not head.has_no_body
        return head

    def is_whole_chunk(self, data: bytes) -> bool:
        """Is this exactly one small chunk, from its size to its line end? Between chunks it changes no state."""
        if not self.is_between_chunks:
            return False
        end = data.find(b"\r\n", 0, 5)
        size = CHUNK_SIZES.get(data[:end])
        return size is not None and len(data) == end + size + 4 and data.endswith(b"\r\n")

    def follow(self, data: bytes) -> None:
        """Find the end of the body; raises for bytes beyond it."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise sent_more()
        self._feed(data)
        if self._is_chunked:
            self._follow_chunks(data)

    def relayed(self, data: bytes) -> bytes:
        """The part of the data that the client gets."""
        return data

    # llhttp

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise sent_more()

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:  # a trailer, relayed with the body
            self._count_between(len(name) + len(value))
        else:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_chunk_header(self) -> None:
        self._in_chunk = True
        self._between = 0

    def on_chunk_complete(self) -> None:
        self._in_chunk = False
        self._between = 0

    def on_message_complete(self) -> None:
        self.is_complete = True
        # Valid only in this callback: llhttp clears its flags afterwards.
        self.keeps_alive = self._parser.should_keep_alive()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise
        except httptools.HttpParserError as problem:
            if isinstance(problem, httptools.HttpParserCallbackError) and (cause := problem.__context__):
                raise cause from None  # a callback raised: extra data, or a bug of ours
            raise UpstreamError(f"the upstream's response is malformed: {problem}") from problem

    def _follow_chunks(self, data: bytes) -> None:
        """Raise for what llhttp accepts: line ends after the last chunk, and endless data outside of the body."""
        self._tail = (self._tail + data[-5:])[-5:]
        if self.is_complete:
            if self._left is None and (not self._tail.endswith(b"\r\n\r\n") or self._tail[0] in b"\r\n"):
                raise sent_more()
        elif not self._in_chunk:
            self._count_between(len(data))
        self.is_between_chunks = not self._in_chunk and data.endswith(b"\r\n")

    def _count_between(self, size: Bytes) -> None:
        self._between += size
        if self._between > MOST_BETWEEN_CHUNKS:
            raise UpstreamError("the upstream sent too much between two chunks")


class DechunkedAnswer(Answer):
    """For HTTP/1.0 clients, which do not support chunks. A separate class, because a callback per part costs time."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def is_whole_chunk(self, data: bytes) -> bool:
        return False

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def relayed(self, data: bytes) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def sent_more() -> UpstreamError:
    return UpstreamError("the upstream sent data after its response")
