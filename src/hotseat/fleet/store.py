"""The port through which hosts agree: leases, watches, compare-and-swap, messages. Engines stand behind it.

Nothing read here may be taken for the present: decide by the outcome of a write, never by a read before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NewType, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hotseat.identifiers import Seconds

Revision = NewType("Revision", int)
"""Of one key in one bucket; a later write has a higher one."""


class Bucket(Enum):
    HOSTS = "hosts"
    CLAIMS = "claims"
    CATALOGS = "catalogs"
    WISHES = "wishes"


LEASE_S: Seconds = 10.0
"""How long a host is believed to be there after its last word."""

LIVES_S: Mapping[Bucket, Seconds | None] = {
    Bucket.HOSTS: LEASE_S,
    Bucket.CLAIMS: LEASE_S,
    Bucket.CATALOGS: 86_400.0,
    Bucket.WISHES: None,
}
"""After its last write, a key is gone; None: it stays."""

_KEY = re.compile(r"[-_=A-Za-z0-9]+(?:\.[-_=A-Za-z0-9]+)*")


def is_key(text: str) -> bool:
    """May this name something in a bucket? Each engine refuses the rest with ValueError."""
    return bool(_KEY.fullmatch(text))


def checked(key: str) -> str:
    if not is_key(key):
        raise ValueError(f'"{key}" cannot be a key: letters, digits, -, _, = and dots within')
    return key


@dataclass(frozen=True, slots=True)
class Written:
    key: str
    value: bytes
    revision: Revision


@dataclass(frozen=True, slots=True)
class Removed:
    """Deleted, or its lease ended."""

    key: str
    revision: Revision


@dataclass(frozen=True, slots=True)
class BegunAnew:
    """What follows is the whole state, up to CaughtUp: what is not in it is gone."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """From here on, changes as they happen."""


Change: TypeAlias = Written | Removed | BegunAnew | CaughtUp


class StoreError(Exception):
    """The store could not be asked, or did not answer in time: nothing is known about the outcome."""


class Conflict(Exception):
    """Somebody else wrote first."""


class Store(Protocol):
    @property
    def is_connected(self) -> bool: ...

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        """Write what is not there yet; Conflict where it is."""
        ...

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        """Write if nobody wrote since; Conflict where somebody did."""
        ...

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        """Write, whatever is there; a lease is renewed by this."""
        ...

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        """Take back, if nobody wrote since `last`."""
        ...

    async def read(self, bucket: Bucket, key: str) -> Written | None: ...

    def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        """The whole state, then every change; after an interruption BegunAnew and the whole state again. Never ends.

        Whoever is slow may miss steps of a key, but never where it went.
        """
        ...

    async def aclose(self) -> None: ...
