"""PURE: names, addresses and ports: in a Host header, an absolute target or an origin, and of the other side."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec import Struct

from hotseat.errors import ClientError

DEFAULT_PORTS = {b"http": 80, b"https": 443}
LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""Equivalent names of this machine. Names under .localhost are excluded: they are the origins of model servers."""
LOCALHOST = ".localhost"
MAPPED_BITS = 96
"""Length of the prefix of IPv4-mapped addresses."""
NETWORK_BITS = 64
"""Of an IPv6 address: whoever has one has the whole network."""


class Authority(Struct, frozen=True):
    name: str
    port: int | None

    def is_same(self, other: Authority, default_port: int) -> bool:
        return self.name == other.name and self.has_port_of(other, default_port)

    def has_port_of(self, other: Authority, default_port: int) -> bool:
        return (self.port or default_port) == (other.port or default_port)

    @property
    def is_loopback(self) -> bool:
        address = address_in(self.name)
        return self.name == "localhost" or (address is not None and address.is_loopback)

    @property
    def label(self) -> str:
        """LABEL of LABEL.localhost; empty for any other name."""
        bare = self.name.removesuffix(".")
        return bare.removesuffix(LOCALHOST) if bare.endswith(LOCALHOST) else ""


def parsed(authority: bytes) -> Authority | None:
    """None for anything that two parsers could read differently."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None
    name, port = found[1].decode().lower(), int(found[2]) if found[2] else None
    if port is not None and port > 65535:
        return None
    if looks_like_an_ip(name.removesuffix(".")) and address_in(name.removesuffix(".")) is None:
        return None
    return Authority(name, port)


def looks_like_an_ip(name: str) -> bool:
    """Browsers treat every name that ends in a number as an IPv4 address."""
    return name.startswith("[") or _NUMBER.fullmatch(name.rpartition(".")[2]) is not None


def address_in(name: str) -> IPv4Address | IPv6Address | None:
    """The address if the name is one; an IPv4-mapped IPv6 address counts as IPv4."""
    try:
        return _unmapped(IPv6Address(name[1:-1]) if name.startswith("[") else IPv4Address(name))
    except ValueError:
        return None


def host_of(name: object) -> str:
    """The host in a socket's peer name, `local` for a unix socket; an IPv4-mapped IPv6 address becomes IPv4."""
    host = str(name[0]) if isinstance(name, tuple) else "local"
    return host.removeprefix("::ffff:") if "." in host else host


def ip_of(peer: str) -> IPv4Address | IPv6Address | None:
    """The IP address, IPv4 if it is mapped, also with brackets or the port that some proxies write; else None."""
    try:
        return _unmapped(ip_address(peer))
    except ValueError:
        found = parsed(peer.encode())
        return None if found is None else address_in(found.name)


@lru_cache(1024)
def counted_as(peer: str) -> str:
    """The address, or its network for IPv6, where a single machine has many; other names stay as they are."""
    address = ip_of(peer)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, NETWORK_BITS), strict=False))
    return peer if address is None else str(address)


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def network_of(entry: str) -> IPv4Network | IPv6Network:
    """An IPv4-mapped IPv6 network becomes an IPv4 network, like its peers."""
    network = ip_network(entry, strict=False)
    if isinstance(network, IPv4Network) or network.prefixlen < MAPPED_BITS:
        return network
    mapped = network.network_address.ipv4_mapped
    return network if mapped is None else IPv4Network((mapped, network.prefixlen - MAPPED_BITS))


def reduce_absolute(target: bytes, host: bytes) -> bytes:
    """`http://host/path` as `/path`; raises if the target and the Host header name different hosts."""
    if target.startswith(b"/") or b"://" not in target:
        return target
    scheme, _, rest = target.partition(b"://")
    authority = _PATH_START.split(rest, maxsplit=1)[0]
    default_port = DEFAULT_PORTS.get(scheme.lower())
    if default_port is None:
        raise ClientError("the request target must be a path or an http URL")
    there, here = parsed(authority), parsed(host)
    if there is None or here is None or not there.is_same(here, default_port):
        raise ClientError("the request target and the Host header name different hosts")
    path = rest[len(authority) :]
    return path if path.startswith(b"/") else b"/" + path


_AUTHORITY = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,255})(?::([0-9]{1,5}))?")
_PATH_START = re.compile(rb"[/?#]")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
