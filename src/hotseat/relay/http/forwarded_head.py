"""PURE: a head as the other side gets it: that of a request for the upstream, that of a response for the client.

Framing is never forwarded: each side gets our own. Hop-by-hop fields end here, and so does every field named in
`Connection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.relay.access.sandbox import confined
from hotseat.relay.http.fields import HOP_BY_HOP, SWITCH, SWITCHING
from hotseat.relay.http.request_id import BESIDE
from hotseat.relay.http.request_id import NAME as REQUEST_ID
from hotseat.relay.http.response_head import SAID_BY_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Address, Bytes
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.http.response_head import ResponseHead

END_IN_REQUESTS = HOP_BY_HOP | {b"content-length", b"host", b"expect", b"x-forwarded-for", REQUEST_ID}
END_IN_RESPONSES = HOP_BY_HOP | SAID_BY_US | {b"content-length"}
SAID_BY_PROXIES = frozenset((b"forwarded", b"x-real-ip"))
FORWARDED = b"x-forwarded-"
ABOUT_ORIGIN = frozenset((b"origin", b"sec-fetch-site"))
INTERNAL = b"hotseat-"
ALLOW_ORIGIN = b"access-control-allow-origin"

# For the upstream


def forwarded_fields(head: RequestHead, removed: frozenset[bytes], trust_proxies: bool) -> list[bytes]:
    """The header lines forwarded to an upstream, as received."""
    ends_here = END_IN_REQUESTS | removed
    if not trust_proxies:
        ends_here |= SAID_BY_PROXIES
    if head.id_header is BESIDE:
        ends_here -= {REQUEST_ID}
    if head.label:
        ends_here |= ABOUT_ORIGIN
    ends_here |= head.options
    prefixes = INTERNAL if trust_proxies else (INTERNAL, FORWARDED)
    return [
        b"%b: %b" % (name, value)
        for name, value in head.fields
        if (lower := name.lower()) not in ends_here and not lower.startswith(prefixes)
    ]


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


def lines_about_origin(head: RequestHead, address: Address) -> list[bytes]:
    """Only its own pages may use a server's own Host; it gets its own address as Host, so they come from there too."""
    if not head.label or b"origin" not in head.known:
        return []
    return [f"Origin: {'https' if address.tls else 'http'}://{address.authority}".encode()]


def upstream_lines(head: RequestHead, target: bytes, address: Address, lines: list[bytes]) -> bytes:
    """The head for the upstream, without framing."""
    begin = b"%b %b%b HTTP/1.1" % (head.method, address.prefix.encode(), target)
    return b"\r\n".join([begin, b"Host: %b" % address.authority.encode(), *lines, b""])


def framed(lines: bytes, id_header: bytes, request_id: bytes, length: int | None) -> bytes:
    """Adds request id and framing: every body was read completely, so its length is known."""
    framing = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"%b%b: %b\r\n%b\r\n" % (lines, id_header, request_id, framing)


# For the client


def prepare(head: ResponseHead) -> tuple[bytes, bytes]:
    """Make what clients without special needs get, once for all of them."""
    plain, confined_lines = (_lines(head, [], dechunk=False, confine=each) for each in (False, True))
    head.prepared = b"\r\n".join([*plain, b""]), b"\r\n".join([*confined_lines, b""])
    return head.prepared


def response_bytes(
    head: ResponseHead,
    length: Bytes | None,
    cors: list[bytes],
    *,
    dechunk: bool,
    close: bool,
    http10: bool,
    confine: bool,
    ours: Iterable[bytes] = (),
) -> bytes:
    """The head for the client: the upstream's fields, confined or not, our own, and our connection framing."""
    lines = _lines(head, cors, dechunk=dechunk, confine=confine)
    if length is not None:
        lines.append(b"Content-Length: %d" % length)
    lines += ours
    if head.status == SWITCHING:
        lines += SWITCH
    elif close:
        lines.append(b"Connection: close")
    elif http10:
        lines.append(b"Connection: keep-alive")
    return b"\r\n".join([*lines, b"", b""])


def _lines(head: ResponseHead, cors: list[bytes], *, dechunk: bool, confine: bool) -> list[bytes]:
    # Browsers reject a response that names two origins, and model servers often name one themselves.
    ends_here = END_IN_RESPONSES | head.options | ({ALLOW_ORIGIN} if cors else set())
    if not dechunk:  # a body relayed chunk by chunk keeps its coding and its trailers; both belong together
        ends_here -= {b"transfer-encoding", b"trailer"}
    fields = [(name, value) for name, value in head.fields if name.lower() not in ends_here]
    if confine and head.status != SWITCHING:
        fields = confined(fields)
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason), *map(b"%b: %b".__mod__, fields), *cors]
    if head.is_event_stream and b"x-accel-buffering" not in head.known:
        lines.append(b"X-Accel-Buffering: no")
    return lines
