"""Keeps the catalog in the store. Of all hosts with the same one, the first whose timer fires renews it."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING

from hotseat.fleet.backoff import chance
from hotseat.fleet.records import encoded
from hotseat.fleet.store import BegunAnew, Bucket, CaughtUp, Conflict, Removed, Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.records import CatalogRecord
    from hotseat.fleet.store import Change, Store
    from hotseat.identifiers import Instant, Seconds

EARLY_S, LATE_S = 6 * 3600.0, 12 * 3600.0
"""Renewed at a random time between these; it expires after a day."""
UNSURE_S: tuple[Seconds, Seconds] = (900.0, 3600.0)
"""The same for a stored catalog of unknown age."""


class _State(Enum):
    """Was our catalog in the watch's initial state?"""

    MISSING = "missing"
    RECEIVED = "received"
    CAUGHT_UP = "caught up"


class CatalogLease:
    def __init__(self, store: Store, offers: Callable[[], CatalogRecord]) -> None:
        self._store = store
        self._offers = offers
        self._digest = ""
        """Of the stored catalog."""
        self._due: Instant = 0.0
        self._state = _State.MISSING

    async def keep(self, digest: str) -> None:
        """Make sure that the catalog of this digest is stored and does not expire."""
        if digest == self._digest and _now() < self._due:
            return
        is_renewal = digest == self._digest
        value = encoded(self._offers())
        try:
            await self._store.create(Bucket.CATALOGS, digest, value)
            self._postpone()
        except Conflict:
            self._due = _now() + chance(*UNSURE_S)
            if is_renewal:
                await self._store.put(Bucket.CATALOGS, digest, value)
                self._postpone()
        self._digest = digest

    def notice(self, change: Change) -> None:
        match change:
            case BegunAnew():
                self._state = _State.MISSING
            case Written(key=self._digest) if self._state is _State.CAUGHT_UP:
                self._postpone()
            case Written(key=self._digest):
                self._state = _State.RECEIVED
            case CaughtUp():
                self._digest = self._digest if self._state is _State.RECEIVED else ""
                self._state = _State.CAUGHT_UP
            case Removed(key=self._digest):
                self._digest = ""

    def _postpone(self) -> None:
        self._due = _now() + chance(EARLY_S, LATE_S)


def _now() -> Instant:
    return asyncio.get_running_loop().time()
