"""PURE: what the head of a request says, after head_parser.py has parsed its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotseat.errors import ClientError, ExpectationFailed, NotImplementedHere, TooLarge
from hotseat.fleet.host_headers import BLANKS, FOR_CLIENT, FOR_MODEL, FOR_ROLE, FROM_HOST, PROOF
from hotseat.relay.http.fields import named_in_connection
from hotseat.relay.http.multipart import boundary_of
from hotseat.relay.http.request_id import USUAL, id_header_for, usable_id

if TYPE_CHECKING:
    from hotseat.relay.http.fields import Field

SPOKEN = ("1.1", "1.0")
WEBSOCKET = [b"websocket"]
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
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
    request_id: bytes = b""
    """The client's id of the request; empty if it sent none, or none fit for logs and headers."""
    keep_alive: bool = True
    """May the connection be used for further requests?"""
    is_websocket: bool = False
    """Does it ask for a websocket, as browsers and clients do it? Any other offered protocol is ignored."""

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
    known = _first_of_each(fields)
    if version not in SPOKEN:
        raise ClientError(f"HTTP/{version} is not supported. Send HTTP/1.1.")
    http10 = version == "1.0"
    if not http10 and b"host" not in known:
        raise ClientError("the Host header is missing. HTTP/1.1 requires exactly one.")
    chunked = _is_chunked(known.get(b"transfer-encoding"), http10)
    if known.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise ExpectationFailed("only Expect: 100-continue is supported")
    head = RequestHead(method, target, http10, fields, known, _length(known), chunked)
    head.boundary = boundary_of(known.get(b"content-type", b""))
    head.id_header = id_header_for(known, fields)
    head.request_id = usable_id(known, head.id_header)
    options = named_in_connection(fields)
    head.keep_alive = b"keep-alive" in options if http10 else b"close" not in options
    head.is_websocket = b"upgrade" in options and _is_websocket(head)
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
    length = known.get(b"content-length")
    if length is None:
        return None
    if not length.isdigit():
        raise ClientError("the Content-Length is not a number")
    if len(length) > 18:
        raise TooLarge("the Content-Length is too large")
    return int(length)


def _is_websocket(head: RequestHead) -> bool:
    """Is a websocket all that this head offers, which names `Upgrade` in `Connection`?"""
    if head.method != b"GET" or head.http10 or not FRAMING.isdisjoint(head.known):
        return False
    offered = [value.strip(BLANKS).lower() for name, value in head.fields if name.lower() == b"upgrade"]
    return offered == WEBSOCKET
