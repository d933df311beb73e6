"""The port through which hosts agree: leases, watches, compare-and-swap, messages. Engines stand behind it.

Nothing read here may be taken for the present: decide by the outcome of a write, never by a read before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NewType, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Revision = NewType("Revision", int)
"""Of one key in one bucket; a later write has a higher one."""


class Bucket(Enum):
    HOSTS = "hosts"
    CLAIMS = "claims"
    CATALOGS = "catalogs"
    WISHES = "wishes"


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
        """The whole state, then every change; after an interruption BegunAnew and the whole state again. Never ends."""
        ...

    async def aclose(self) -> None: ...
