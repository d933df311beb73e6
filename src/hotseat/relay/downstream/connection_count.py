"""Counts connections from the moment the kernel hands them over: before TLS, before the first byte."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hotseat.settings import Limits

MOST_REFUSED = 64
"""Beyond a limit, this many get an error; further ones are closed silently, because a response takes time."""
MAPPED = "::ffff:"
LOCAL = "local"
"""The peer of a unix socket."""


class Excess(NamedTuple):
    """The limit that a connection exceeds, and by how many."""

    limit: str
    by: int

    @property
    def may_be_told(self) -> bool:
        return self.by <= MOST_REFUSED


class ConnectionCount:
    def __init__(self, fits: int | None = None) -> None:
        """`fits`: how many connections the process's file descriptors allow; None: any number."""
        self.total = 0
        self._fits = fits
        self._from: Counter[str] = Counter()

    def add(self, peer: str, limits: Limits, *, is_proxy: bool) -> Excess | None:
        """Count it; returns the limit that it exceeds, if any. A trusted proxy stands for many clients."""
        self.total += 1
        self._from[peer] += 1
        most, per_address = self.bounds(limits)
        if self.total > most:
            return Excess("limits.connections", self.total - most)
        if self._from[peer] > per_address and not is_proxy:
            return Excess("limits.connectionsPerAddress", self._from[peer] - per_address)
        return None

    def remove(self, peer: str) -> None:
        self.total -= 1
        self._from[peer] -= 1
        if not self._from[peer]:
            del self._from[peer]

    def bounds(self, limits: Limits) -> tuple[int, int]:
        """The limits in total and per address."""
        if self._fits is None or limits.connections <= self._fits:
            return limits.connections, limits.per_address
        return self._fits, min(limits.per_address, max(1, self._fits // 2))


def host_of(name: object) -> str:
    """The host in a socket's peer name; an IPv4-mapped IPv6 address becomes IPv4."""
    if not isinstance(name, tuple):
        return LOCAL
    host = str(name[0])
    return host[len(MAPPED) :] if host.startswith(MAPPED) and "." in host else host


def ip_of(peer: str) -> IPv4Address | IPv6Address | None:
    """The peer's IP address, IPv4 if it is mapped; None for a unix socket."""
    try:
        address = ip_address(peer)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
