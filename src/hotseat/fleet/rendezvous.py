"""PURE: the same choice among equals, everywhere and without remembering anything (rendezvous hashing).

Each pair of a subject and a host has a number, and the host with the highest is the subject's. When a host comes or
goes, only subjects that are or were its own change their host.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import HostName


def liking(subject: str, host: HostName) -> int:
    """How much a subject is drawn to a host."""
    digest = blake2b(f"{subject}\0{host}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def favourite(subject: str, hosts: Iterable[HostName]) -> HostName:
    return max(hosts, key=lambda host: (liking(subject, host), host))
