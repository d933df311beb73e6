"""The store interface for agreement between hosts: leases, watches, compare-and-swap.

What is read may be outdated: decide by the outcome of a write, never by a read before it.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NewType, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hotseat.identifiers import Seconds

Revision = NewType("Revision", int)
"""Of one key in one bucket; a later write has a higher one."""


class Bucket(Enum):
    HOSTS = "hosts"
    CLAIMS = "claims"
    CATALOGS = "catalogs"
    # The bucket on the disks of NATS and the permissions of its users have this name: another one would lose orders.
    ORDERS = "wishes"


LEASE_S: Seconds = 10.0
"""How long a host counts as alive after its last update."""

LIVES_S: Mapping[Bucket, Seconds | None] = {
    Bucket.HOSTS: LEASE_S,
    Bucket.CLAIMS: LEASE_S,
    Bucket.CATALOGS: 86_400.0,
    Bucket.ORDERS: None,
}
"""A key expires this long after its last write; None: never."""

_KEY = re.compile(r"[-_=A-Za-z0-9]+(?:\.[-_=A-Za-z0-9]+)*")


def is_key(text: str) -> bool:
    """Is this a valid key? Every implementation rejects others with ValueError."""
    return bool(_KEY.fullmatch(text))


def checked(key: str) -> str:
    if not is_key(key):
        raise ValueError(f'"{key}" cannot be a key: letters, digits, -, _, = and dots within')
    return key


class Written(Struct, frozen=True):
    key: str
    value: bytes
    revision: Revision


class Removed(Struct, frozen=True):
    """Deleted or expired."""

    key: str
    revision: Revision


class BegunAnew(Struct, frozen=True):
    """The whole state follows, up to CaughtUp: keys that are not in it are gone."""


class CaughtUp(Struct, frozen=True):
    """From here on, changes are live."""


Change: TypeAlias = Written | Removed | BegunAnew | CaughtUp


class StoreError(Exception):
    """The store was unreachable or did not answer in time: the outcome is unknown."""


class NameTaken(Exception):
    """Another live host has our name."""

    def __init__(self, said: str, revision: Revision) -> None:
        super().__init__(said)
        self.revision = revision


class Conflict(Exception):
    """Somebody else wrote first."""


class Store(Protocol):
    @property
    def is_connected(self) -> bool: ...

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        """Write a new key; Conflict if it exists."""
        ...

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        """Write if the revision is still `last`; else Conflict."""
        ...

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        """Write unconditionally; this renews a lease."""
        ...

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        """Remove if the revision is still `last`."""
        ...

    async def read(self, bucket: Bucket, key: str) -> Written | None: ...

    def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        """The whole state, then every change; after an interruption BegunAnew and the whole state again. Never ends.

        A slow reader may miss intermediate values of a key, but never its latest.
        """
        ...

    async def aclose(self) -> None: ...
