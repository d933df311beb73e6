"""PURE: the head of a request as an upstream gets it.

Framing is never forwarded: the upstream gets our own. Hop-by-hop fields end here, and so does every field named in
`Connection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.relay.http.fields import HOP_BY_HOP, named_in_connection
from hotseat.relay.http.request_id import BESIDE
from hotseat.relay.http.request_id import NAME as REQUEST_ID

if TYPE_CHECKING:
    from hotseat.identifiers import Address
    from hotseat.relay.http.request_head import RequestHead

ENDS_HERE = HOP_BY_HOP | {b"content-length", b"host", b"expect", b"x-forwarded-for", REQUEST_ID}
SAID_BY_PROXIES = frozenset((b"forwarded", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip"))
INTERNAL = b"hotseat-"


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


def upstream_lines(head: RequestHead, target: bytes, address: Address, lines: list[bytes]) -> bytes:
    """The head for the upstream, without framing."""
    begin = b"%b %b%b HTTP/1.1" % (head.method, address.prefix.encode(), target)
    return b"\r\n".join([begin, b"Host: %b" % address.authority.encode(), *lines, b""])


def framed(lines: bytes, id_header: bytes, request_id: bytes, length: int | None) -> bytes:
    """Adds request id and framing: every body was read completely, so its length is known."""
    if length is None:
        return b"%b%b: %b\r\n\r\n" % (lines, id_header, request_id)
    return b"%b%b: %b\r\nContent-Length: %d\r\n\r\n" % (lines, id_header, request_id, length)
