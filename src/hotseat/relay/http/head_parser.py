"""PURE: parses the head of a request from its bytes alone.

llhttp parses the syntax; `check_spelling` and request_head.py refuse what llhttp accepts and other servers read
differently.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httptools

from hotseat.errors import ClientError, HeadTooLarge, NotImplementedHere
from hotseat.relay.http.request_head import SPOKEN, read_head

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes
    from hotseat.relay.http.fields import Field
    from hotseat.relay.http.request_head import RequestHead

END = b"\r\n\r\n"
SPOKEN_AS = tuple(b" HTTP/%b" % version.encode() for version in SPOKEN)
_TAB_IN_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*\t", re.IGNORECASE)


class _Collector:
    """Collects what llhttp finds in a head."""

    def __init__(self) -> None:
        self.target = b""
        self.fields: list[Field] = []
        self.is_complete = False

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


class PartialHead:
    """A head that arrives in several reads. Parsing what is there of it only serves to refuse garbage at once."""

    __slots__ = ("_lines", "_parser")

    def __init__(self) -> None:
        self._lines = b""
        self._parser = httptools.HttpRequestParser(None)

    def add(self, data: bytes, most: Bytes) -> bytes:
        """All bytes so far if the head is complete, else none; raises if it is malformed or too large."""
        searched, self._lines = max(0, len(self._lines) - 3), self._lines + data
        if self._lines.find(END, searched) >= 0:
            return self._lines
        if (problem := _problem_of(self._parser, data)) is not None:
            raise problem
        check_size(len(self._lines), most)
        return b""


def parse_request_head(lines: bytes) -> RequestHead:
    """Parse a complete head, including its blank line; raises with advice for the client."""
    found = _Collector()
    parser = httptools.HttpRequestParser(found)
    problem = _problem_of(parser, lines)
    if not found.is_complete:
        raise problem or ClientError("the request is malformed: its head is incomplete")
    if (method := parser.get_method()) == b"CONNECT":
        raise NotImplementedHere("CONNECT is not supported")
    check_spelling(lines[:-2])
    head = read_head(method, found.target, parser.get_http_version(), found.fields)
    if problem is not None:
        raise problem  # with the complete head: our own words for it, if any, came first
    return head


def _problem_of(parser: httptools.HttpRequestParser, data: bytes) -> ClientError | None:
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        return None  # the head ends here in any case; what was offered is in its fields
    except httptools.HttpParserError as problem:
        return malformed(problem)
    return None


def malformed(problem: httptools.HttpParserError) -> ClientError:
    return ClientError(f"the request is malformed: {problem}")


def check_size(size: Bytes, most: Bytes) -> None:
    """The limit holds for a head, and for what comes between two chunks of a body."""
    if size > most:
        raise HeadTooLarge(f"the head is larger than {most} bytes (limits.header)")


def check_spelling(lines: bytes) -> None:
    """Refuse what llhttp accepts and others do not: RTSP and ICE for HTTP, a tab as blank around a length."""
    if not lines.partition(b"\r\n")[0].endswith(SPOKEN_AS):
        raise ClientError("the first line does not end with HTTP/1.1. Send HTTP/1.1.")
    if _TAB_IN_FRAMING.search(lines):
        raise ClientError("a tab precedes the Content-Length or Transfer-Encoding value. Send a space.")
