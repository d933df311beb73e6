"""PURE: what a page may do here, by its `Origin`.

A browser does not let a page choose its `Origin`. All sandboxed pages and files have `null`, including those of model
servers: it is foreign, and if the configuration allows it, it is for inference only.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from hotseat.relay.access.authority import DEFAULT_PORTS, LOOPBACK, parsed
from hotseat.relay.routing.paths import ONLY_LISTED, is_ours
from hotseat.settings import Role

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.relay.access.authority import Authority
    from hotseat.relay.http.request_head import RequestHead
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

    def page(self, origin: bytes, here: Authority) -> Page:
        """`here` is from the Host header."""
        said = origin.lower()
        if said == SANDBOXED:
            return self._sandboxed
        scheme, separator, authority = said.partition(b"://")
        if said in self._named or (separator and authority in self._named):
            return Page.TRUSTED
        if scheme in DEFAULT_PORTS and (there := parsed(authority)):
            return _page_at(there, here, DEFAULT_PORTS[scheme]) or self._others
        return Page.INFERENCE_ONLY if separator and scheme in DESKTOP_SHELLS else self._others

    def may_ask(self, page: Page, head: RequestHead) -> bool:
        """Checked before the model is known: a preflight never names one."""
        return page in EVERYTHING or (page is Page.INFERENCE_ONLY and self._is_inference(head))

    def _is_inference(self, head: RequestHead) -> bool:
        """Does it use a model or list models? A preflight counts as the request it announces."""
        method, path = asked_method(head), head.target.partition(b"?")[0]
        if is_ours(method, path):
            return path == b"/v1/models" or path.startswith(b"/v1/models/")
        if path.startswith(b"/upstream/"):  # the model name is not parsed yet
            path = path[max(path.find(b"/v1/", len(b"/upstream/")), 0) :]
        return self._paths.of_model(method, path).role is Role.INFERENCE


def _page_at(there: Authority, here: Authority, default_port: int) -> Page | None:
    if there.is_same(here, default_port):
        return Page.OWN
    if {there.name, here.name} <= LOOPBACK and there.has_port_of(here, default_port):
        return Page.TRUSTED
    return Page.INFERENCE_ONLY if there.is_loopback else None


def asked_method(head: RequestHead) -> bytes:
    """The method that a preflight announces, or the request's own."""
    return head.known.get(b"access-control-request-method", head.method) if head.method == b"OPTIONS" else head.method
