"""Keeps the catalog in the store. Of all hosts with the same one, the first whose timer fires renews it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.fleet.backoff import chance
from hotseat.fleet.records import encoded
from hotseat.fleet.revision_tracker import Ledger
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
CATCH_UP_S: Seconds = 2.0
"""How long to wait for the watch of the catalogs before an upload that may be needless."""


class CatalogLease:
    def __init__(self, store: Store, offers: Callable[[], CatalogRecord]) -> None:
        self._store = store
        self._offers = offers
        self._digest = ""
        """Of the stored catalog."""
        self._due: Instant = 0.0
        self._stored = Ledger()
        """All catalogs that the watch has reported."""
        self._caught_up = asyncio.Event()

    async def keep(self, digest: str) -> None:
        """Make sure that the catalog of this digest is stored and does not expire."""
        if digest != self._digest:
            await self._begin(digest)
            self._digest = digest
        elif _now() >= self._due:
            await self._store.put(Bucket.CATALOGS, digest, encoded(self._offers()))
            self._postpone()

    async def _begin(self, digest: str) -> None:
        """Usually another host has stored the same catalog: look first, because an upload may be large."""
        self._due = _now() + chance(*UNSURE_S)
        if not await self._is_stored(digest):
            with suppress(Conflict):
                await self._store.create(Bucket.CATALOGS, digest, encoded(self._offers()))
                self._postpone()

    async def _is_stored(self, digest: str) -> bool:
        """By the watch, which receives all catalogs in any case."""
        if self._store.is_connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP_S):
                    await self._caught_up.wait()
        return self._caught_up.is_set() and digest in self._stored

    def notice(self, change: Change) -> None:
        match change:
            case BegunAnew():
                self._stored.begun_anew()
                self._caught_up.clear()
            case Written(key=key, revision=revision):
                if self._stored.wrote(key, revision) and key == self._digest and self._caught_up.is_set():
                    self._postpone()
            case Removed(key=key, revision=revision):
                self._stored.removed(key, revision)
                self._forget_if_lost()
            case CaughtUp():
                self._stored.caught_up()
                self._caught_up.set()
                self._forget_if_lost()

    def _forget_if_lost(self) -> None:
        if self._digest not in self._stored:
            self._digest = ""

    def _postpone(self) -> None:
        self._due = _now() + chance(EARLY_S, LATE_S)


def _now() -> Instant:
    return asyncio.get_running_loop().time()
