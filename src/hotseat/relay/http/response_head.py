"""PURE: the head of an upstream's response: what it says, and what the client gets of it.

Parsing is a function of the bytes alone, so its results can be kept: servers repeat themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import httptools

from hotseat.errors import LoadFailed, UpstreamError
from hotseat.fleet.host_headers import BLANKS
from hotseat.relay.access.sandbox import confined
from hotseat.relay.http.fields import HOP_BY_HOP, SWITCH, SWITCHING, keeps_alive, named_in_connection
from hotseat.relay.http.request_id import BESIDE, USUAL
from hotseat.relay.http.request_id import NAME as REQUEST_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import Bytes, Seconds
    from hotseat.relay.http.fields import Field
    from hotseat.relay.http.head_cache import HeadTemplate

FINAL = tuple(b"HTTP/1.%d %d" % (minor, kind) for minor in (1, 0) for kind in range(1, 10))
"""How a response begins; llhttp also accepts blank lines, other protocols and other versions."""
NOT_SERVED = b"hotseat-not-served"
"""A host sends this if it did nothing for a forwarded request."""
FAILED_START = (b"X-Error-Code", LoadFailed.code.encode())
QUEUE_LENGTH = b"hotseat-queue-length"
"""How many requests use or want the model; sent to the forwarding host while some must wait."""
SAID_BY_US = frozenset((BESIDE.lower(), NOT_SERVED, QUEUE_LENGTH))
"""Response fields that only hotseat itself sets."""
ENDS_HERE = HOP_BY_HOP | SAID_BY_US | {b"content-length"}
ALLOW_ORIGIN = b"access-control-allow-origin"

# llama-server closes kept-alive connections after 5 s or 100 requests; below these limits neither race occurs.
IDLE_S: Seconds = 4.0
MOST_REQUESTS = 99


class BodyEnd(Enum):
    """What ends the body."""

    HEAD = "there is none"
    LENGTH = "its length"
    LAST_CHUNK = "the last chunk"
    CLOSE = "the end of the connection"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
LENGTH: Final = BodyEnd.LENGTH
LAST_CHUNK: Final = BodyEnd.LAST_CHUNK
CLOSE: Final = BodyEnd.CLOSE


@dataclass(slots=True)
class ResponseHead:
    """Without Content-Length, which is often all that changes: it is passed beside the head."""

    status: int
    reason: bytes
    fields: list[Field]
    known: dict[bytes, bytes]
    """Lower-case name to value."""
    body_end: BodyEnd
    keeps_alive: bool
    idle_s: Seconds = IDLE_S
    most_requests: int = MOST_REQUESTS
    """How long its connection may be idle, and how often it may be used."""
    id_header: bytes = USUAL
    """Carries hotseat's request id to the client; the upstream's own id stays."""
    tells_of_host: bool = False
    """Does a fleet host report something about itself?"""
    template: HeadTemplate | None = None
    """Recognises the same head in the next response; None if it states no length."""
    prepared: tuple[bytes, bytes] | None = None
    """For clients without special needs, without length and request id: plain, and confined; None until needed."""

    @property
    def is_event_stream(self) -> bool:
        return self.known.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def is_failed_start(self) -> bool:
        """Does a host report that it cannot start the model?"""
        return self.status == LoadFailed.status and FAILED_START in self.fields

    @property
    def queue_length(self) -> int | None:
        """How many requests the host reports for the model; None: no report, so none waits."""
        said = self.known.get(QUEUE_LENGTH, b"")
        return int(said) if said.isdigit() else None

    @property
    def is_turned_away(self) -> bool:
        return NOT_SERVED in self.known

    @property
    def unproven(self) -> str:
        """The error of a host that rejects our proof; empty otherwise."""
        if self.known.get(NOT_SERVED) != b"unproven":
            return ""
        return self.known.get(b"x-error-message", b"it did not say why").decode("latin-1")

    def prepare(self) -> tuple[bytes, bytes]:
        plain, sandboxed = (_lines(self, [], dechunk=False, confine=each) for each in (False, True))
        self.prepared = b"\r\n".join([*plain, b""]), b"\r\n".join([*sandboxed, b""])
        return self.prepared


class _Collector:
    """What llhttp finds in a head."""

    __slots__ = ("fields", "reason")

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self.reason = b""

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))


def parse_response_head(lines: bytes) -> tuple[ResponseHead, int | None]:
    """The head in these bytes, and the length that it states; raises UpstreamError."""
    if not lines.startswith(FINAL):
        raise UpstreamError("the upstream's response is malformed: it does not begin like HTTP/1.1")
    found = _Collector()
    parser = httptools.HttpResponseParser(found)
    try:
        parser.feed_data(lines)
    except httptools.HttpParserUpgrade:
        pass  # a 101: what follows is not HTTP
    except httptools.HttpParserError as problem:
        raise UpstreamError(f"the upstream's response is malformed: {problem}") from problem
    return read_response_head(parser.get_status_code(), found.reason, found.fields, parser.get_http_version())


def read_response_head(
    status: int, reason: bytes, fields: list[Field], version: str = "1.1"
) -> tuple[ResponseHead, int | None]:
    known = {name.lower(): value.strip(BLANKS) for name, value in fields}
    _check_framing(known, fields)
    length = known.pop(b"content-length", None)
    body_end = _body_end(status, is_chunked=b"transfer-encoding" in known, has_length=length is not None)
    head = ResponseHead(status, reason, fields, known, body_end, keeps_alive(version, known, fields))
    head.idle_s, head.most_requests = _promised(known.get(b"keep-alive", b""))
    if REQUEST_ID in known:
        head.id_header = BESIDE
    head.tells_of_host = NOT_SERVED in known or QUEUE_LENGTH in known or head.is_failed_start
    if head.is_event_stream:
        # llama-server closes after each stream, whatever it promised; a request sent at that moment is lost.
        head.idle_s = 0.0
    return head, None if length is None else int(length)


def _check_framing(known: dict[bytes, bytes], fields: list[Field]) -> None:
    if b"transfer-encoding" not in known:
        return
    if b"content-length" in known:
        raise UpstreamError("the upstream sent both Content-Length and Transfer-Encoding")
    if [value.strip(BLANKS).lower() for name, value in fields if name.lower() == b"transfer-encoding"] != [b"chunked"]:
        raise UpstreamError("the upstream used a transfer coding other than chunked, or several")


def _body_end(status: int, *, is_chunked: bool, has_length: bool) -> BodyEnd:
    if status in (SWITCHING, 204, 304):
        return BodyEnd.HEAD
    if is_chunked:
        return LAST_CHUNK
    return LENGTH if has_length else CLOSE


def _promised(keep_alive: bytes) -> tuple[Seconds, int]:
    """How long and how often a connection may be used, from `timeout=5, max=100`, with a margin for the race."""
    if not keep_alive:
        return IDLE_S, MOST_REQUESTS
    numbers = {key: int(number) for key, number in _KEEP_ALIVE.findall(keep_alive.lower())}
    return min(IDLE_S, numbers.get(b"timeout", 5) - 1.0), min(MOST_REQUESTS, numbers.get(b"max", 100) - 1)


_KEEP_ALIVE = re.compile(rb"(timeout|max)\s*=\s*(\d{1,9})")


# For the client


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
    fields = _relayed_fields(head, dechunk, bool(cors))
    if confine and head.status != SWITCHING:
        fields = confined(fields)
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason), *map(b"%b: %b".__mod__, fields), *cors]
    if head.is_event_stream and b"x-accel-buffering" not in head.known:
        lines.append(b"X-Accel-Buffering: no")
    return lines


def _relayed_fields(head: ResponseHead, dechunk: bool, says_own_origin: bool) -> list[Field]:
    # Browsers reject a response that names two origins, and model servers often name one themselves.
    ends_here = ENDS_HERE | {ALLOW_ORIGIN} if says_own_origin else ENDS_HERE
    if b"connection" in head.known:
        ends_here = ends_here | named_in_connection(head.fields)
    # A body relayed chunk by chunk keeps its coding and its trailers; both belong together.
    kept = () if dechunk else (b"transfer-encoding", b"trailer")
    return [(name, value) for name, value in head.fields if (lower := name.lower()) not in ends_here or lower in kept]
