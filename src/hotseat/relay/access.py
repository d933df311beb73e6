"""Who may speak to us at all: Host, Origin and Sec-Fetch-Site, looked at before anything has an effect.

A web page can make its reader's browser call any address, and can make a name of its own point at this host. Both
are told by headers a page cannot forge. Keys are another matter, see keys.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hotseat.errors import ClientError, Forbidden

if TYPE_CHECKING:
    from hotseat.settings import Access

MOST_REMEMBERED = 1024
LONGEST_QUOTE = 120

OWN_SITE = (None, b"same-origin", b"none")
STATIC_PAGES = (b"/hotseat/ui/", b"/hotseat/assets/")
# What a page of any site can send without asking first.
PLAIN_FORMS = (b"text/plain", b"application/x-www-form-urlencoded")


class Gate:
    """Remembers who was let in, so that the usual request costs one look-up."""

    def __init__(self, access: Access, listen: tuple[str, int], fleet_address: str = "") -> None:
        """`fleet_address` is where other hosts of the fleet reach us: they call us by that name."""
        entries = [_PORT.sub("", entry.lower()) for entry in access.allowed_hosts]
        # The address we listen on is no name by which we are called: 0.0.0.0 stays refused.
        called = (listen[0].lower(), urlsplit(fleet_address).hostname or "")
        own = [name for name in called if name and not _looks_like_an_ip(name)]
        self._names = frozenset(("localhost", *own, *(entry.removeprefix(".") for entry in entries)))
        self._suffixes = (
            ".localhost",
            *(entry.removeprefix("*") for entry in entries if entry.startswith((".", "*."))),
        )
        self._origins = frozenset(entry.lower().rstrip("/").encode() for entry in access.allowed_origins)
        self._welcome: set[tuple[bytes, bytes | None, bytes | None]] = set()

    def check(
        self,
        method: bytes,
        path: bytes,
        host: bytes,
        origin: bytes | None,
        fetch_site: bytes | None,
        fetch_mode: bytes | None,
        content_type: bytes | None = None,
    ) -> None:
        """Returns for those who may ask this; raises what to tell the others."""
        caller = (host, origin, fetch_site)
        if caller not in self._welcome:
            here = self._known_host(host)
            if origin is not None:
                self._check_origin(origin, here)
            elif fetch_site not in OWN_SITE:
                _check_is_page(method, path, fetch_mode)
                return
            self._remember(caller)
        if content_type is not None and (origin is not None or fetch_site is not None):
            _check_is_no_plain_form(path, content_type)

    def _remember(self, caller: tuple[bytes, bytes | None, bytes | None]) -> None:
        if len(self._welcome) >= MOST_REMEMBERED:
            self._welcome.clear()
        self._welcome.add(caller)

    def _known_host(self, host: bytes) -> _Authority:
        here = _parsed(host)
        if here is None:
            raise ClientError("the Host header must be a name or an address, with or without a port")
        if self._is_known(here.name):
            return here
        raise Forbidden(
            f'Host "{here.name}" is not known here. If it is a name of this host, add it to allowedHosts '
            "in the configuration."
        )

    def _is_known(self, name: str) -> bool:
        bare = name.removesuffix(".")
        if bare in self._names or bare.endswith(self._suffixes):
            return True
        if _looks_like_an_ip(bare):
            return _is_usable_ip(bare)
        return "." not in name

    def _check_origin(self, origin: bytes, here: _Authority) -> None:
        said = origin.lower()
        scheme, separator, authority = said.partition(b"://")
        if said in self._origins or (separator and authority in self._origins):
            return
        there = _parsed(authority)
        if there is not None and there.is_same(here, _DEFAULT_PORTS.get(scheme, 0)):
            return
        shown = _quoted(origin)
        raise Forbidden(
            f'Pages of origin "{shown}" may not use this address. If you trust them, add "{shown}" to allowedOrigins '
            "in the configuration."
        )


def reduce_absolute(target: bytes, host: bytes) -> bytes:
    """`http://host/path` as `/path`; raises when it names another host than the Host header."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    scheme, _, rest = target.partition(b"://")
    authority = _PATH_START.split(rest, maxsplit=1)[0]
    default_port = _DEFAULT_PORTS.get(scheme.lower())
    if default_port is None:
        raise ClientError("the request target must be a path or an http URL")
    there, here = _parsed(authority), _parsed(host)
    if there is None or here is None or not there.is_same(here, default_port):
        raise ClientError("the request target names another host than the Host header")
    path = rest[len(authority) :]
    return path if path.startswith(b"/") else b"/" + path


_AUTHORITY = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,255})(?::([0-9]{1,5}))?")
_PATH_START = re.compile(rb"[/?#]")
_PORT = re.compile(r"(?<![:0-9]):[0-9]+$")
_DEFAULT_PORTS = {b"http": 80, b"https": 443}
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")


@dataclass(frozen=True, slots=True)
class _Authority:
    name: str
    port: int | None

    def is_same(self, other: _Authority, default_port: int) -> bool:
        ours, theirs = self.port or default_port, other.port or default_port
        return (self.name, ours) == (other.name, theirs)


def _parsed(authority: bytes) -> _Authority | None:
    """None for whatever two parsers could read in two ways."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None
    name, port = found[1].decode().lower(), int(found[2]) if found[2] else None
    if port is not None and port > 65535:
        return None
    if _looks_like_an_ip(name.removesuffix(".")) and _ip(name.removesuffix(".")) is None:
        return None
    return _Authority(name, port)


def _looks_like_an_ip(name: str) -> bool:
    """Browsers take every name that ends in a number for an IPv4 address."""
    return name.startswith("[") or _NUMBER.fullmatch(name.rpartition(".")[2]) is not None


def _ip(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return IPv6Address(name[1:-1]) if name.startswith("[") else IPv4Address(name)
    except ValueError:
        return None


def _is_usable_ip(name: str) -> bool:
    """An address cannot be made to point elsewhere, but 0.0.0.0 reaches this host past a browser's own guards."""
    address = _ip(name)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address is not None and not address.is_unspecified


def _check_is_page(method: bytes, path: bytes, fetch_mode: bytes | None) -> None:
    """Following a link from elsewhere may open what is only read."""
    is_static = path.partition(b"?")[0] == b"/swagger" or path.startswith(STATIC_PAGES)
    if is_static and fetch_mode == b"navigate" and method in (b"GET", b"HEAD"):
        return
    raise Forbidden(
        "Pages of other sites may not use this address. If you trust one, add its origin to allowedOrigins "
        "in the configuration."
    )


def _check_is_no_plain_form(path: bytes, content_type: bytes) -> None:
    if path.startswith(b"/v1/") and content_type.lstrip().lower().startswith(PLAIN_FORMS):
        raise Forbidden(f'A browser must send application/json here, not "{_quoted(content_type)}".')


def _quoted(raw: bytes) -> str:
    return raw[:LONGEST_QUOTE].decode("ascii", "replace")
