"""PURE: message heads: what they say, and which header fields are forwarded.

Framing is never forwarded: both sides get our own. Hop-by-hop fields end here, and so does every field named in
`Connection`. Trailers never become fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.errors import ClientError, ExpectationFailed, LoadFailed, NotImplementedHere, TooLarge, UpstreamError
from hotseat.fleet.host_headers import BLANKS, FOR_CLIENT, FOR_MODEL, FOR_ROLE, FROM_HOST, PROOF
from hotseat.relay.access.sandbox import confined
from hotseat.relay.http.multipart import boundary_of
from hotseat.relay.http.request_id import BESIDE, USUAL, id_header_for
from hotseat.relay.http.request_id import NAME as REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Address

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"proxy-authenticate",
        b"proxy-authorization",
    )
)
ENDS_HERE = HOP_BY_HOP | {b"content-length", b"host", b"expect", b"x-forwarded-for", REQUEST_ID}
NOT_SERVED = b"hotseat-not-served"
"""A host sends this if it did nothing for a forwarded request."""
FAILED_START = (b"X-Error-Code", LoadFailed.code.encode())
QUEUE_LENGTH = b"hotseat-queue-length"
"""How many requests use or want the model; sent to the forwarding host while some must wait."""
SAID_BY_US = frozenset((BESIDE.lower(), NOT_SERVED, QUEUE_LENGTH))
"""Response fields that only hotseat itself sets."""
CHUNKED = [b"chunked"]
SPOKEN = ("1.1", "1.0")
SWITCHING = 101
SWITCH = [b"Connection: Upgrade", b"Upgrade: websocket"]
SAID_BY_PROXIES = frozenset((b"forwarded", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip"))
ALLOW_ORIGIN = b"access-control-allow-origin"
INTERNAL = b"hotseat-"
SHOWN_ONCE = frozenset(
    (
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"authorization",
        b"x-api-key",
        FROM_HOST,
        FOR_CLIENT,
        FOR_MODEL,
        FOR_ROLE,
        PROOF,
    )
)
"""Checks read one value of these, so a second one would pass unchecked."""


@dataclass(slots=True)
class RequestHead:
    method: bytes
    target: bytes
    http10: bool
    fields: list[Field]
    known: dict[bytes, bytes]
    """Lower-case name to value; the first of repeated fields."""
    length: int | None
    """Content-Length; None if absent or for a chunked body."""
    chunked: bool
    boundary: bytes | None = None
    """Separates the parts of a form; None for other bodies."""
    id_header: bytes = USUAL
    """Carries the request id to the upstream."""

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)

    @property
    def is_json(self) -> bool:
        return b"json" in self.known.get(b"content-type", b"").lower()

    @property
    def announces_names(self) -> bool:
        """Is its body, if any, declared as JSON or a form, which may name a model?"""
        return self.boundary is not None or self.is_json

    @property
    def has_readable_body(self) -> bool:
        """Is there a body declared as JSON or a form? Then the model that it names counts."""
        if not self.has_body or self.known.get(b"content-encoding", b"identity").lower() != b"identity":
            return False
        return self.announces_names

    @property
    def is_websocket(self) -> bool:
        """Does it ask for a websocket, as browsers and clients do it?"""
        if self.method != b"GET" or self.http10 or self.has_body:
            return False
        asked = self.known.get(b"upgrade", b"").lower(), self.known.get(b"connection", b"").lower()
        return asked[0] == b"websocket" and b"upgrade" in asked[1]

    @property
    def is_navigation(self) -> bool:
        """Does a browser fetch it to show it as a page?"""
        if self.method != b"GET":
            return False
        mode = self.known.get(b"sec-fetch-mode")
        # Browsers omit the field on untrusted connections: plain http to another machine.
        return mode == b"navigate" if mode is not None else b"text/html" in self.known.get(b"accept", b"")

    @property
    def wants_continue(self) -> bool:
        return b"expect" in self.known and not self.http10


def read_head(method: bytes, target: bytes, version: str, fields: list[Field]) -> RequestHead:
    """Check what llhttp leaves to us; raises with advice for the client."""
    known: dict[bytes, bytes] = {}
    for name, value in fields:
        lower = name.lower()
        if lower not in known:
            known[lower] = value.strip(BLANKS)
        elif lower in SHOWN_ONCE:
            raise ClientError(f"the header {lower.decode()} is given twice. Send it once.")
    if version not in SPOKEN:
        raise ClientError(f"HTTP/{version} is not supported. Send HTTP/1.1.")
    http10 = version == "1.0"
    if not http10 and b"host" not in known:
        raise ClientError("the Host header is missing. HTTP/1.1 requires exactly one.")
    chunked = _is_chunked(known.get(b"transfer-encoding"), http10)
    if known.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise ExpectationFailed("only Expect: 100-continue is supported")
    boundary, id_header = boundary_of(known.get(b"content-type", b"")), id_header_for(known, fields)
    return RequestHead(method, target, http10, fields, known, _length(known), chunked, boundary, id_header)


def check_spelling(lines: bytes) -> None:
    """Refuse what llhttp accepts and others do not: RTSP and ICE for HTTP, a tab as blank around a length."""
    first, _, fields = lines.lstrip(b"\r\n").partition(b"\r\n")
    if not first.endswith(SPOKEN_AS):
        raise ClientError("the first line does not end with HTTP/1.1. Send HTTP/1.1.")
    if _TAB_IN_FRAMING.search(b"\r\n" + fields):
        raise ClientError("a tab precedes the Content-Length or Transfer-Encoding value. Send a space.")


SPOKEN_AS = tuple(b" HTTP/%b" % version.encode() for version in SPOKEN)
_TAB_IN_FRAMING = re.compile(rb"\r\n(?:content-length|transfer-encoding):[^\r\n]*\t", re.IGNORECASE)


def _is_chunked(coding: bytes | None, http10: bool) -> bool:
    if coding is None:
        return False
    if http10:
        raise ClientError("an HTTP/1.0 request cannot have a Transfer-Encoding. Send Content-Length.")
    if coding.lower() != b"chunked":
        raise NotImplementedHere("the only supported Transfer-Encoding is chunked")
    return True


def _length(known: dict[bytes, bytes]) -> int | None:
    length = known.get(b"content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise ClientError("the Content-Length is not a number")
    if len(length) > 18:
        raise TooLarge("the Content-Length is too large")
    return int(length)


def forwarded_fields(head: RequestHead, removed: frozenset[bytes], trust_proxies: bool) -> list[bytes]:
    """The header lines forwarded to an upstream, as received."""
    ends_here = ENDS_HERE | removed if removed else ENDS_HERE
    if head.id_header is BESIDE:
        ends_here = ends_here - {REQUEST_ID}
    if b"connection" in head.known:
        ends_here = ends_here | named_in_connection(head.fields)
    lines = []
    for name, value in head.fields:
        lower = name.lower()
        if lower in ends_here or lower.startswith(INTERNAL):
            continue
        if lower in SAID_BY_PROXIES and not trust_proxies:
            continue
        lines.append(b"%b: %b" % (name, value))
    return lines


def lines_about_client(head: RequestHead, peer: str, scheme: bytes, trust_proxies: bool) -> list[bytes]:
    """The X-Forwarded lines; those of a trusted proxy are kept."""
    said = head.known if trust_proxies else {}
    chain = [value for name, value in head.fields if name.lower() == b"x-forwarded-for"] if said else []
    lines = [b"X-Forwarded-For: %b" % b", ".join([*chain, peer.encode()])]
    if b"x-forwarded-proto" not in said:
        lines.append(b"X-Forwarded-Proto: %b" % scheme)
    if b"x-forwarded-host" not in said:
        lines.append(b"X-Forwarded-Host: %b" % head.known.get(b"host", b""))
    return lines


def named_in_connection(fields: list[Field]) -> frozenset[bytes]:
    values = b",".join(value for name, value in fields if name.lower() == b"connection")
    return frozenset(token.strip().lower() for token in values.split(b","))


def upstream_lines(head: RequestHead, target: bytes, address: Address, lines: list[bytes]) -> bytes:
    """The head for the upstream, without framing."""
    begin = b"%b %b%b HTTP/1.1" % (head.method, address.prefix.encode(), target)
    return b"\r\n".join([begin, b"Host: %b" % address.authority.encode(), *lines, b""])


def framed(lines: bytes, id_header: bytes, request_id: bytes, length: int | None) -> bytes:
    """Adds request id and framing: every body was read completely, so its length is known."""
    if length is None:
        return b"%b%b: %b\r\n\r\n" % (lines, id_header, request_id)
    return b"%b%b: %b\r\nContent-Length: %d\r\n\r\n" % (lines, id_header, request_id, length)


@dataclass(slots=True)
class ResponseHead:
    status: int
    reason: bytes
    fields: list[Field]
    known: dict[bytes, bytes]

    @property
    def is_event_stream(self) -> bool:
        return self.known.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def id_header(self) -> bytes:
        """Carries hotseat's request id to the client; the upstream's own id stays."""
        return BESIDE if REQUEST_ID in self.known else USUAL

    @property
    def is_failed_start(self) -> bool:
        """Does a host report that it cannot start the model?"""
        return self.status == LoadFailed.status and FAILED_START in self.fields

    @property
    def line(self) -> int | None:
        """How many requests the host reports for the model; None: no report, so none waits."""
        said = self.known.get(QUEUE_LENGTH, b"")
        return int(said) if said.isdigit() else None

    @property
    def tells_of_host(self) -> bool:
        """Does a host report something about itself in the response?"""
        return QUEUE_LENGTH in self.known or self.is_failed_start

    @property
    def is_turned_away(self) -> bool:
        return NOT_SERVED in self.known

    @property
    def unproven(self) -> str:
        """The error of a host that rejects our proof; empty otherwise."""
        if self.known.get(NOT_SERVED) != b"unproven":
            return ""
        return self.known.get(b"x-error-message", b"it did not say why").decode("latin-1")

    @property
    def is_chunked(self) -> bool:
        return b"transfer-encoding" in self.known

    @property
    def has_no_body(self) -> bool:
        return self.status in (SWITCHING, 204, 304)

    @property
    def length(self) -> int | None:
        """Of the body; None if chunks or the end of the connection define it."""
        if self.has_no_body:
            return 0
        length = self.known.get(b"content-length")
        return None if length is None else int(length)

    @property
    def ends_with_the_connection(self) -> bool:
        """Only the upstream's closing the connection ends the body."""
        return not self.has_no_body and not self.is_chunked and b"content-length" not in self.known


def read_response_head(status: int, reason: bytes, fields: list[Field]) -> ResponseHead:
    known = {name.lower(): value.strip(BLANKS) for name, value in fields}
    if b"transfer-encoding" in known:
        if b"content-length" in known:
            raise UpstreamError("the upstream sent both Content-Length and Transfer-Encoding")
        if [value.strip(BLANKS).lower() for name, value in fields if name.lower() == b"transfer-encoding"] != CHUNKED:
            raise UpstreamError("the upstream used a transfer coding other than chunked, or several")
    return ResponseHead(status, reason, fields, known)


def response_bytes(
    head: ResponseHead,
    cors: list[bytes],
    *,
    dechunk: bool,
    close: bool,
    http10: bool,
    confine: bool,
    ours: Iterable[bytes] = (),
) -> bytes:
    """The head for the client: the upstream's fields, confined or not, our own, and our connection framing."""
    fields = _relayed_fields(head, dechunk, bool(cors))
    if confine and head.status != SWITCHING:
        fields = confined(fields)
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason), *map(b"%b: %b".__mod__, fields), *cors, *ours]
    if head.is_event_stream and b"x-accel-buffering" not in head.known:
        lines.append(b"X-Accel-Buffering: no")
    if head.status == SWITCHING:
        lines += SWITCH
    elif close:
        lines.append(b"Connection: close")
    elif http10:
        lines.append(b"Connection: keep-alive")
    return b"\r\n".join([*lines, b"", b""])


def _relayed_fields(head: ResponseHead, dechunk: bool, says_own_origin: bool) -> list[Field]:
    # Browsers reject a response that names two origins, and model servers often name one themselves.
    ends_here = HOP_BY_HOP | SAID_BY_US | {ALLOW_ORIGIN} if says_own_origin else HOP_BY_HOP | SAID_BY_US
    if b"connection" in head.known:
        ends_here = ends_here | (named_in_connection(head.fields) - {b"content-length"})  # needed as framing
    # A body relayed chunk by chunk keeps its coding and its trailers; both belong together.
    kept = (b"transfer-encoding", b"trailer")
    return [
        (name, value)
        for name, value in head.fields
        if (lower := name.lower()) not in ends_here or (lower in kept and not dechunk)
    ]
