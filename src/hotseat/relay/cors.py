"""PURE: what a browser must read before a page of another, allowed origin may see our answers; off by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.relay.head import RequestHead

DAY = b"86400"


class Cors:
    def __init__(self, allowed_origins: Collection[str]) -> None:
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in allowed_origins)
        self.is_on = bool(self._origins)

    def lines(self, head: RequestHead) -> list[bytes]:
        """Fields for an answer to this request; none for callers that need none."""
        origin = head.known.get(b"origin") if self._origins else None
        if origin is None or self._origins.isdisjoint((origin.lower(), origin.lower().partition(b"://")[2])):
            return []
        return [b"Access-Control-Allow-Origin: %b" % origin, b"Vary: Origin"]

    def readable(self, answer: bytes, head: RequestHead) -> bytes:
        """An answer of our own, with the fields without which a page could not read it."""
        status_line, line_end, rest = answer.partition(b"\r\n")
        return line_end.join([status_line, *self.lines(head), rest])

    def preflight(self, head: RequestHead) -> bytes | None:
        """The whole answer to a browser that asks whether it may ask."""
        if head.method != b"OPTIONS" or b"access-control-request-method" not in head.known:
            return None
        if not (lines := self.lines(head)):
            return None
        lines.append(b"Access-Control-Allow-Methods: %b" % head.known[b"access-control-request-method"])
        if wanted := head.known.get(b"access-control-request-headers"):
            lines.append(b"Access-Control-Allow-Headers: %b" % wanted)
        return b"HTTP/1.1 204 No Content\r\n%b\r\nAccess-Control-Max-Age: %b\r\n\r\n" % (b"\r\n".join(lines), DAY)
