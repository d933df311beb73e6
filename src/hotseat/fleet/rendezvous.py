"""PURE: rendezvous hashing: every host makes the same choice among equals, without shared state.

Each pair of a subject and a host has a score; the host with the highest owns the subject. When a host joins or leaves,
only the subjects that it owns or owned change hosts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotseat.identifiers import HostName


def rendezvous_score(subject: str, host: HostName) -> int:
    digest = blake2b(f"{subject}\0{host}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def owner(subject: str, hosts: Iterable[HostName]) -> HostName:
    return max(hosts, key=lambda host: (rendezvous_score(subject, host), host))
