"""PURE: parses the head of a request from its bytes alone.

llhttp parses the syntax; what it accepts and other servers read differently is refused here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httptools
from msgspec import Struct

from hotseat.errors import ClientError, ExpectationFailed, HeadTooLarge, NotImplementedHere, TooLarge
from hotseat.fleet.host_headers import BLANKS, FOR_CLIENT, FOR_MODEL, FOR_ROLE, FROM_HOST, PROOF
from hotseat.relay.http.fields import FoundHead, connection_options, keeps_alive
from hotseat.relay.http.multipart import boundary_of
from hotseat.relay.http.request_id import USUAL, client_id

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes
    from hotseat.relay.http.fields import Field

END = b"\r\n\r\n"
SPOKEN = ("1.1", "1.0")
SPOKEN_AS = tuple(b" HTTP/%b" % version.encode() for version in SPOKEN)
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
MOST_FIELDS = 128
"""nginx with its defaults allows 1,000 and Apache 100; each takes 200 bytes of memory while its request is served."""
SHOWN_ONCE = frozenset(b"host origin sec-fetch-site sec-fetch-mode authorization x-api-key".split())
SHOWN_ONCE |= {FROM_HOST, FOR_CLIENT, FOR_MODEL, FOR_ROLE, PROOF}
"""Checks read one value of these, so a second one would pass unchecked."""
_TAB_IN_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*\t", re.IGNORECASE)


class RequestHead(Struct):
    method: bytes
    target: bytes
    http10: bool
    fields: list[Field]
    known: dict[bytes, bytes]
    """Lower-case name to value; the first of repeated fields."""
    length: int | None
    """Content-Length; None if absent or for a chunked body."""
    chunked: bool
    options: frozenset[bytes] = frozenset()
    """What `Connection` names."""
    keep_alive: bool = True
    """May the connection be used for further requests?"""
    boundary: bytes | None = None
    """Separates the parts of a form; None for other bodies."""
    id_header: bytes = USUAL
    """Carries the request id to the upstream."""
    request_id: bytes = b""
    """The client's id of the request; empty if it sent none, or none fit for logs and headers."""
    is_websocket: bool = False
    """Does it ask for a websocket, as browsers and clients do it? Any other offered protocol is ignored."""
    is_from_proxy: bool = False
    """Did a trusted proxy send it, which says who has signed in?"""
    label: str = ""
    """Of the model whose server has the requested Host to itself, LABEL.localhost; empty: the Host is hotseat's own."""

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)

    @property
    def is_json(self) -> bool:
        return b"json" in self.known.get(b"content-type", b"").lower()

    @property
    def is_encoded(self) -> bool:
        return self.known.get(b"content-encoding", b"identity").lower() != b"identity"

    @property
    def has_readable_body(self) -> bool:
        """Is there a body declared as JSON or a form? Then the model that it names counts."""
        return self.has_body and not self.is_encoded and (self.boundary is not None or self.is_json)

    @property
    def is_navigation(self) -> bool:
        """Does a browser fetch it to show it as a page?"""
        if self.method != b"GET":
            return False
        mode = self.known.get(b"sec-fetch-mode")
        # Browsers omit the field on untrusted connections: plain http to another machine.
        return mode == b"navigate" if mode is not None else b"text/html" in self.known.get(b"accept", b"")

    @property
    def is_of_browser(self) -> bool:
        """Has it a field that browsers add to requests and that pages cannot leave out?"""
        return b"origin" in self.known or b"sec-fetch-site" in self.known

    @property
    def wants_continue(self) -> bool:
        return b"expect" in self.known and not self.http10


def check_expectation(head: RequestHead) -> None:
    if head.known.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise ExpectationFailed("only Expect: 100-continue is supported")


class PartialHead:
    """A head that arrives in several reads. Parsing what is there of it only serves to refuse garbage at once."""

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


def check_size(size: Bytes, most: Bytes) -> None:
    """The limit holds for a head, and for what comes between two chunks of a body."""
    if size > most:
        raise HeadTooLarge(f"the head is larger than {most} bytes")


def parse_request_head(lines: bytes) -> RequestHead:
    """Parse a complete head, including its blank line; raises with advice for the client."""
    if lines.count(b"\n") > MOST_FIELDS + 2:  # the first line and the blank one
        raise HeadTooLarge(f"the head has more than {MOST_FIELDS} fields. Send fewer.")
    found = FoundHead()
    parser = httptools.HttpRequestParser(found)
    problem = _problem_of(parser, lines)
    if not found.is_complete:
        raise problem or ClientError("the request is malformed: its head is incomplete")
    if (method := parser.get_method()) == b"CONNECT":
        raise NotImplementedHere("CONNECT is not supported")
    _check_spelling(lines[:-2])
    head = read_head(method, found.first, parser.get_http_version(), found.fields)
    if problem is not None:
        raise problem  # with the complete head: our own words for it, if any, came first
    return head


def _problem_of(parser: httptools.HttpRequestParser, data: bytes) -> ClientError | None:
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        return None  # the head ends here in any case; what was offered is in its fields
    except httptools.HttpParserError as problem:
        return ClientError(f"the request is malformed: {problem}")
    return None


def _check_spelling(lines: bytes) -> None:
    """Refuse what llhttp accepts and others do not: RTSP and ICE for HTTP, a tab as blank around a length."""
    if not lines.partition(b"\r\n")[0].endswith(SPOKEN_AS):
        raise ClientError("the first line does not end with HTTP/1.1. Send HTTP/1.1.")
    if _TAB_IN_FRAMING.search(lines):
        raise ClientError("a tab precedes the Content-Length or Transfer-Encoding value. Send a space.")


def read_head(method: bytes, target: bytes, version: str, fields: list[Field]) -> RequestHead:
    """Check what llhttp leaves to us; raises with advice for the client."""
    known = _first_of_each(fields)
    if version not in SPOKEN:
        raise ClientError(f"HTTP/{version} is not supported. Send HTTP/1.1.")
    http10 = version == "1.0"
    if not http10 and b"host" not in known:
        raise ClientError("the Host header is missing. HTTP/1.1 requires exactly one.")
    chunked = _is_chunked(known.get(b"transfer-encoding"), http10)
    options = connection_options(fields)
    head = RequestHead(method, target, http10, fields, known, _length(known), chunked, options)
    head.keep_alive = keeps_alive(version, options)
    head.boundary = boundary_of(known.get(b"content-type", b""))
    head.id_header, head.request_id = client_id(known, fields)
    head.is_websocket = _is_websocket(head)
    return head


def _first_of_each(fields: list[Field]) -> dict[bytes, bytes]:
    known: dict[bytes, bytes] = {}
    for name, value in fields:
        lower = name.lower()
        if lower not in known:
            known[lower] = value.strip(BLANKS)
        elif lower in SHOWN_ONCE:
            raise ClientError(f"the header {lower.decode()} is given twice. Send it once.")
    return known


def _is_chunked(coding: bytes | None, http10: bool) -> bool:
    if coding is None:
        return False
    if http10:
        raise ClientError("an HTTP/1.0 request cannot have a Transfer-Encoding. Send Content-Length.")
    if coding.lower() != b"chunked":
        raise NotImplementedHere("the only supported Transfer-Encoding is chunked")
    return True


def _length(known: dict[bytes, bytes]) -> int | None:
    if (length := known.get(b"content-length")) is None:
        return None
    if not length.isdigit():
        raise ClientError("the Content-Length is not a number")
    if len(length) > 18:
        raise TooLarge("the Content-Length is too large")
    return int(length)


def _is_websocket(head: RequestHead) -> bool:
    if b"upgrade" not in head.options or head.method != b"GET" or head.http10 or not FRAMING.isdisjoint(head.known):
        return False
    return [value.strip(BLANKS).lower() for name, value in head.fields if name.lower() == b"upgrade"] == [b"websocket"]
