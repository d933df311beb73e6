"""PURE: what a page may do here, by its `Origin`; the CORS headers that let it read our responses.

A browser does not let a page choose its `Origin`. All sandboxed pages and files have `null`, including those of model
servers: it is foreign, and if the configuration allows it, it is for inference only.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hotseat.errors import Forbidden
from hotseat.relay.access.authority import DEFAULT_PORTS, LOOPBACK, parsed
from hotseat.relay.routing.paths import ONLY_LISTED, path_at_model
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.relay.access.authority import Authority
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.relay.routing.model_name import Destination
    from hotseat.relay.routing.paths import PathTable

ANY = "*"
SANDBOXED = b"null"
DESKTOP_SHELLS = frozenset((b"app", b"file", b"tauri", b"vscode-webview"))
"""Schemes of desktop programs made of web pages: users install these rather than visit them."""


class Page(Enum):
    OWN = "own"
    """From the requested address itself: its browser needs no CORS permission."""
    TRUSTED = "trusted"
    """From another origin with the rights of our own pages."""
    INFERENCE_ONLY = "inference only"
    FOREIGN = "foreign"


EVERYTHING = (Page.OWN, Page.TRUSTED)
"""Pages that may request everything."""


class PageRights:
    def __init__(self, allowed: Collection[str], paths: PathTable = ONLY_LISTED) -> None:
        self._paths = paths
        self._named = frozenset(entry.lower().rstrip("/").encode() for entry in allowed) - {SANDBOXED, b"*"}
        self._others = Page.INFERENCE_ONLY if ANY in allowed else Page.FOREIGN
        self._sandboxed = Page.INFERENCE_ONLY if {ANY, SANDBOXED.decode()} & set(allowed) else Page.FOREIGN

    def page(self, origin: bytes, here: Authority, label: str = "") -> Page:
        """`here` is from the Host header; with a label it belongs to a model server, and to its pages alone."""
        said = origin.lower()
        scheme, separator, authority = said.partition(b"://")
        there = parsed(authority) if scheme in DEFAULT_PORTS else None
        if label:
            is_own = there is not None and there.is_same(here, DEFAULT_PORTS[scheme])
            return Page.OWN if is_own else Page.FOREIGN
        if said == SANDBOXED:
            return self._sandboxed
        if said in self._named or (separator and authority in self._named):
            return Page.TRUSTED
        if there is not None:
            return _page_at(there, here, DEFAULT_PORTS[scheme]) or self._others
        return Page.INFERENCE_ONLY if separator and scheme in DESKTOP_SHELLS else self._others

    def may_ask(self, page: Page, head: RequestHead) -> bool:
        """Checked before the model is known: a preflight never names one."""
        return page in EVERYTHING or (page is Page.INFERENCE_ONLY and self._is_inference(head))

    def _is_inference(self, head: RequestHead) -> bool:
        """Does it use a model or list models? A preflight counts as the request it announces."""
        method, path = asked_method(head), head.target.partition(b"?")[0]
        if self._paths.is_ours(method, path):
            return path == b"/v1/models" or path.startswith(b"/v1/models/")
        endpoint = self._paths.endpoint(method, path)
        forwarded = self._paths.forwarded(method, path_at_model(path)) if endpoint is None else endpoint.target
        rule = self._paths.in_other_api(method, path) or self._paths.of_model(method, forwarded)
        return rule.role is Role.INFERENCE

    def is_confined(self, head: RequestHead) -> bool:
        """Is it from a page that may use models, but not decide what happens to them?"""
        origin, here = head.known.get(b"origin"), parsed(head.known.get(b"host", b"localhost"))
        return origin is not None and here is not None and self.page(origin, here, head.label) not in EVERYTHING

    def check_destination(self, head: RequestHead, destination: Destination) -> None:
        """What a path looks like may be a part of another one: the rule of what is forwarded decides. Raises 403."""
        if destination.rule.role is not Role.INFERENCE and self.is_confined(head):
            raise Forbidden("Pages of this origin may only use models, and this path of a model server may do more.")

    # CORS: without these headers a browser hides our responses from pages of other allowed origins.

    def lines(self, head: RequestHead) -> list[bytes]:
        """Header lines for the response; none if the caller needs none or may not read it."""
        origin, host = head.known.get(b"origin"), head.known.get(b"host", b"localhost")
        if origin is None or (here := parsed(host)) is None:
            return []
        page = self.page(origin, here, head.label)
        if page is Page.OWN or not self.may_ask(page, head):
            return []
        return [b"Access-Control-Allow-Origin: %b" % origin, b"Vary: Origin"]

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
        return b"HTTP/1.1 204 No Content\r\n%b\r\nAccess-Control-Max-Age: 86400\r\n\r\n" % b"\r\n".join(lines)


def _page_at(there: Authority, here: Authority, default_port: int) -> Page | None:
    if there.is_same(here, default_port):
        return Page.OWN
    if {there.name, here.name} <= LOOPBACK and there.has_port_of(here, default_port):
        return Page.TRUSTED
    return Page.INFERENCE_ONLY if there.is_loopback else None


def asked_method(head: RequestHead) -> bytes:
    """The method that a preflight announces, or the request's own."""
    return head.known.get(b"access-control-request-method", head.method) if head.method == b"OPTIONS" else head.method
