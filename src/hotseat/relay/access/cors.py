"""PURE: CORS headers, without which a browser hides our responses from pages of other allowed origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.relay.access.authority import parsed
from hotseat.relay.access.page_rights import Page, asked_method

if TYPE_CHECKING:
    from hotseat.relay.access.page_rights import PageRights
    from hotseat.relay.http.request_head import RequestHead

DAY = b"86400"


class Cors:
    def __init__(self, origins: PageRights) -> None:
        self._origins = origins

    def lines(self, head: RequestHead) -> list[bytes]:
        """Header lines for the response; none if the caller needs none or may not read it."""
        origin = head.known.get(b"origin")
        if origin is None or not self._may_read(head, origin):
            return []
        return [b"Access-Control-Allow-Origin: %b" % origin, b"Vary: Origin"]

    def _may_read(self, head: RequestHead, origin: bytes) -> bool:
        here = parsed(head.known.get(b"host", b"localhost"))
        if here is None:
            return False
        page = self._origins.page(origin, here)
        return page is not Page.OWN and self._origins.may_ask(page, head)

    def readable(self, answer: bytes, head: RequestHead) -> bytes:
        """Adds the CORS headers to a response of our own."""
        status_line, line_end, rest = answer.partition(b"\r\n")
        return line_end.join([status_line, *self.lines(head), rest])

    def preflight(self, head: RequestHead) -> bytes | None:
        """The complete response to a CORS preflight."""
        if head.method != b"OPTIONS" or b"access-control-request-method" not in head.known:
            return None
        if not (lines := self.lines(head)):
            return None
        lines.append(b"Access-Control-Allow-Methods: %b" % asked_method(head))
        if wanted := head.known.get(b"access-control-request-headers"):
            lines.append(b"Access-Control-Allow-Headers: %b" % wanted)
        return b"HTTP/1.1 204 No Content\r\n%b\r\nAccess-Control-Max-Age: %b\r\n\r\n" % (b"\r\n".join(lines), DAY)
