"""PURE: parses the head of an upstream's response from its bytes alone."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

import httptools
from msgspec import Struct

from hotseat.errors import LoadFailed, UpstreamError
from hotseat.fleet.host_headers import BLANKS
from hotseat.relay.http.fields import SWITCHING, FoundHead, connection_options, keeps_alive
from hotseat.relay.http.request_id import BESIDE, USUAL
from hotseat.relay.http.request_id import NAME as REQUEST_ID

if TYPE_CHECKING:
    from hotseat.identifiers import Seconds
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

# llama-server closes kept-alive connections after 5 s or 100 requests; below these limits neither race occurs.
IDLE_S: Seconds = 4.0
MOST_REQUESTS = 99
_find_promises = re.compile(rb"(timeout|max)\s*=\s*(\d{1,9})").findall


class BodyEnd(Enum):
    """What ends the body."""

    HEAD = "there is none"
    LENGTH = "its length"
    LAST_CHUNK = "the last chunk"
    CLOSE = "the end of the connection"


# Bound once: Python 3.11 needs as long for an enum member lookup as for a call.
NO_BODY, LENGTH, LAST_CHUNK, CLOSE = BodyEnd


class ResponseHead(Struct):
    """Without Content-Length, which is often all that changes: it is passed beside the head."""

    status: int
    reason: bytes
    fields: list[Field]
    known: dict[bytes, bytes]
    """Lower-case name to value."""
    options: frozenset[bytes]
    """What `Connection` names."""
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
    def failed_start(self) -> LoadFailed:
        """What such a host says."""
        wait_s = self.known.get(b"retry-after", b"")
        return LoadFailed(self._message, retry_after=int(wait_s) if wait_s.isdigit() else None)

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
        return self._message

    @property
    def _message(self) -> str:
        return self.known.get(b"x-error-message", b"it did not say why").decode("latin-1")


def malformed(problem: object) -> UpstreamError:
    return UpstreamError(f"the upstream's response is malformed: {problem}")


def parse_response_head(lines: bytes) -> tuple[ResponseHead, int | None]:
    """The head in these bytes, and the length that it states; raises UpstreamError."""
    if not lines.startswith(FINAL):
        raise malformed("it does not begin like HTTP/1.1")
    found = FoundHead()
    parser = httptools.HttpResponseParser(found)
    try:
        parser.feed_data(lines)
    except httptools.HttpParserUpgrade:
        pass  # a 101: what follows is not HTTP
    except httptools.HttpParserError as problem:
        raise malformed(problem) from problem
    return read_response_head(parser.get_status_code(), found.first, found.fields, parser.get_http_version())


def read_response_head(
    status: int, reason: bytes, fields: list[Field], version: str = "1.1"
) -> tuple[ResponseHead, int | None]:
    known = {name.lower(): value.strip(BLANKS) for name, value in fields}
    length = known.pop(b"content-length", None)
    body_end, options = _body_end(status, fields, has_length=length is not None), connection_options(fields)
    head = ResponseHead(status, reason, fields, known, options, body_end, keeps_alive(version, options))
    # What `Keep-Alive: timeout=5, max=100` promises, with a margin for the race.
    promised = {key: int(number) for key, number in _find_promises(known.get(b"keep-alive", b"").lower())}
    head.idle_s = min(IDLE_S, promised.get(b"timeout", 5) - 1.0)
    head.most_requests = min(MOST_REQUESTS, promised.get(b"max", 100) - 1)
    if head.is_event_stream:
        # llama-server closes after each stream, whatever it promised; a request sent at that moment is lost.
        head.idle_s = 0.0
    if REQUEST_ID in known:
        head.id_header = BESIDE
    head.tells_of_host = NOT_SERVED in known or QUEUE_LENGTH in known or head.is_failed_start
    return head, None if length is None else int(length)


def _body_end(status: int, fields: list[Field], *, has_length: bool) -> BodyEnd:
    codings = [value.strip(BLANKS).lower() for name, value in fields if name.lower() == b"transfer-encoding"]
    if codings and has_length:
        raise UpstreamError("the upstream sent both Content-Length and Transfer-Encoding")
    if codings and codings != [b"chunked"]:
        raise UpstreamError("the upstream used a transfer coding other than chunked, or several")
    if status in (SWITCHING, 204, 304):
        return NO_BODY
    if codings:
        return LAST_CHUNK
    return LENGTH if has_length else CLOSE
