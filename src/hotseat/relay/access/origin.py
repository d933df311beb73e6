"""Which requests are admitted by Host, Origin and Sec-Fetch-Site, checked before anything has an effect.

A web page can make its reader's browser call any address, and can point a name of its own at this host (DNS rebinding).
Headers that a page cannot forge reveal both. api_keys.py checks keys; a rebinding page has none, so a request with a
valid key may use any Host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotseat.errors import ClientError, Forbidden, ForeignHost
from hotseat.relay.access.authority import DEFAULT_PORTS, LOCALHOST, LOOPBACK, address_in, looks_like_an_ip, parsed
from hotseat.relay.access.page_rights import ANY, EVERYTHING, SANDBOXED, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.relay.access.authority import Authority
    from hotseat.relay.access.page_rights import PageRights
    from hotseat.relay.http.request_head import RequestHead
    from hotseat.settings import Access

MOST_REMEMBERED = 1024
LONGEST_QUOTE = 120

OWN_SITE = (None, b"same-origin", b"none")
STATIC_PAGES = (b"/hotseat/ui/", b"/hotseat/assets/")
# What a page of any site can send without a preflight.
PLAIN_FORMS = (b"text/plain", b"application/x-www-form-urlencoded")
LOCAL_SUFFIXES = (LOCALHOST, ".local", ".internal")
"""Reserved for a machine, its link and private networks: nobody can register names under them."""


class OriginCheck:
    """Caches admitted callers, so that the usual request costs one lookup."""

    def __init__(self, access: Access, origins: PageRights, called: Iterable[str]) -> None:
        """`called`: names of this host and where it listens."""
        entries = [_PORT.sub("", entry.lower()) for entry in access.allowed_hosts]
        # A listen address is not one of our names: 0.0.0.0 stays rejected.
        own = [name.lower() for name in called if name and not looks_like_an_ip(name)]
        self._names = frozenset(("localhost", *own, *(entry.removeprefix(".") for entry in entries)))
        suffixes = (entry.removeprefix("*") for entry in entries if entry.startswith((".", "*.")))
        self._suffixes = (*LOCAL_SUFFIXES, *suffixes)
        self._any_host = ANY in entries
        self._origins = origins
        self._welcome: set[tuple[bytes, bytes | None, bytes | None]] = set()

    def check(self, head: RequestHead, host: bytes, has_key: Callable[[], bool]) -> None:
        """Raises the error for callers that are not admitted; notes whose Host it is."""
        head.label = self._label_in(host)
        known = head.known
        origin, site = known.get(b"origin"), known.get(b"sec-fetch-site")
        caller = (host, origin, site)
        if caller not in self._welcome and self._let_in(head, host, has_key):
            if len(self._welcome) >= MOST_REMEMBERED:
                self._welcome.clear()
            self._welcome.add(caller)
        if origin is not None or site is not None:
            _check_is_no_plain_form(head)

    def _label_in(self, host: bytes) -> str:
        """Empty for names that are hotseat's own, such as those in `allowedHosts`."""
        here = parsed(host)
        return "" if here is None or here.name.removesuffix(".") in self._names else here.label

    def _let_in(self, head: RequestHead, host: bytes, has_key: Callable[[], bool]) -> bool:
        """Raises if the request is not allowed; returns whether the same caller may request anything."""
        here, origin, site = parsed(host), head.known.get(b"origin"), head.known.get(b"sec-fetch-site")
        if here is None:
            raise ClientError("the Host header must be a name or an address, with or without a port")
        is_known = self._any_host or self._is_known(here.name)
        if not is_known and not has_key():
            raise ForeignHost(
                f'Host "{here.name}" is not allowed. If it is a name of this host, add it to allowedHosts '
                "in the configuration."
            )
        if origin is not None:
            return self._check_origin(head, origin, here) and is_known
        if site not in OWN_SITE:
            if head.label:
                _check_is_own_link(head, here)
            else:
                _check_is_page(head)
            return False
        return is_known

    def _is_known(self, name: str) -> bool:
        bare = name.removesuffix(".")
        if bare in self._names or bare.endswith(self._suffixes):
            return True
        if looks_like_an_ip(bare):  # it cannot be rebound, but 0.0.0.0 gets past a browser's own protection
            return (address := address_in(bare)) is not None and not address.is_unspecified
        return "." not in name

    def _check_origin(self, head: RequestHead, origin: bytes, here: Authority) -> bool:
        """Raises if pages of this origin may not request this; returns whether they may request anything."""
        page, shown = self._origins.page(origin, here, head.label), _quoted(origin)
        if page is Page.FOREIGN and head.label:
            raise Forbidden(f'Pages of origin "{shown}" may not use {here.name}: only its own pages may.')
        if page is Page.FOREIGN:
            raise Forbidden(
                f'Pages of origin "{shown}" may not use this address. If you trust them, add "{shown}" to '
                "allowedOrigins in the configuration."
            )
        if not self._origins.may_ask(page, head):
            way_out = f' If you trust them with that, add "{shown}" to allowedOrigins in the configuration.'
            way_out = "" if origin.lower() == SANDBOXED else way_out  # `null` may manage nothing, even if it is allowed
            raise Forbidden(f'Pages of origin "{shown}" may only use models, not manage them.{way_out}')
        return page in EVERYTHING


_PORT = re.compile(r"(?<![:0-9]):[0-9]+$")


def _check_is_page(head: RequestHead) -> None:
    """Links from other sites may open read-only pages."""
    path = head.target.partition(b"?")[0]
    is_static = path == b"/swagger" or path.startswith(STATIC_PAGES)
    if is_static and head.known.get(b"sec-fetch-mode") == b"navigate" and head.method in (b"GET", b"HEAD"):
        return
    raise Forbidden(
        "Pages of other sites may not use this address. If you trust one, add its origin to allowedOrigins "
        "in the configuration."
    )


def _check_is_own_link(head: RequestHead, here: Authority) -> None:
    """Links on hotseat's own pages may open pages of a model server, and so may start it.

    Only `Referer` tells them from links on other sites: browsers say `cross-site` for both.
    """
    if head.method in (b"GET", b"HEAD") and head.known.get(b"sec-fetch-mode") == b"navigate":
        scheme, _, rest = head.known.get(b"referer", b"").lower().partition(b"://")
        there = parsed(rest.partition(b"/")[0]) if scheme in DEFAULT_PORTS else None
        if there is not None and there.name in LOOPBACK and there.has_port_of(here, DEFAULT_PORTS[scheme]):
            return
    raise Forbidden(
        "Pages of other sites may not use this address. Open it with the link in hotseat's dashboard, or type it."
    )


def _check_is_no_plain_form(head: RequestHead) -> None:
    content_type = head.known.get(b"content-type", b"")
    if head.target.startswith(b"/v1/") and content_type.lstrip().lower().startswith(PLAIN_FORMS):
        raise Forbidden(f'A browser must send application/json, not "{_quoted(content_type)}".')


def _quoted(raw: bytes) -> str:
    return raw[:LONGEST_QUOTE].decode("ascii", "replace")
