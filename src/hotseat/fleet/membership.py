"""Maintains this host's membership: its name, lease, record and catalog; and receives those of others.

This module waits for the store; nothing else waits for it: a disconnected host continues with what it knows.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.fleet.backoff import chance
from hotseat.fleet.host_record import routing_summary
from hotseat.fleet.name_owner import is_ours, taken
from hotseat.fleet.records import HostRecord, decoded, encoded
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.store import (
    LEASE_S,
    BegunAnew,
    Bucket,
    CaughtUp,
    Change,
    Conflict,
    NameTaken,
    Removed,
    Store,
    StoreError,
    Written,
)
from hotseat.fleet.view import FleetConnection
from hotseat.tasks import Tasks, forever

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.records import CatalogRecord
    from hotseat.fleet.store import Revision
    from hotseat.identifiers import Instant, Seconds

log = logging.getLogger(__name__)
RENEW_S: Seconds = 3.0
"""Three attempts before a lease ends."""
BETWEEN_S: Seconds = 0.2
"""Minimum time between two published updates."""
AGAIN_S: Seconds = 1.0
"""Delay after a failure."""
EARLY_S, LATE_S = 6 * 3600.0, 12 * 3600.0
"""Renewed at a random time between these; it expires after a day."""
UNSURE_S: tuple[Seconds, Seconds] = (900.0, 3600.0)
"""The same for a stored catalog of unknown age."""
CATCH_UP_S: Seconds = 2.0
"""How long to wait for the watch of the catalogs before an upload that may be needless."""


class Membership:
    def __init__(
        self,
        store: Store,
        describe: Callable[[], HostRecord],
        offers: Callable[[], CatalogRecord],
        on_change: Callable[[Bucket, Change], None],
        turned: Callable[[FleetConnection], None] = lambda _: None,
    ) -> None:
        """`describe().catalog` is the digest of `offers`. `on_change` and `turned` return at once and never raise."""
        self._store = store
        self._describe = describe
        self._on_change = on_change
        self._turned = turned
        self._catalog = CatalogLease(store, offers)
        self._publishing, self._watching = Tasks(), Tasks()
        self._news = asyncio.Event()
        self._last: Revision | None = None
        """Revision of our record as we last wrote it; None before the first write."""
        self._note_load: object = None
        """The routing summary that others last received."""
        self.connection = FleetConnection.JOINING
        self._problem: StoreError | Conflict | NameTaken | None = None

    async def join(self) -> None:
        """Take our name, and start publishing and receiving; NameTaken if a live host has the name.

        If the store is unreachable this returns anyway, and the name is taken once the store is back.
        """
        self._start_watching()
        try:
            await self._take_name()
        except NameTaken:
            await self._watching.aclose()
            raise
        self._publishing.start(self._keep_publishing(), "publish this host")

    def notify(self) -> None:
        """Something that others should know may have changed: a phase, free memory, our shutdown."""
        self._news.set()

    async def fall_silent(self) -> None:
        """Publish nothing more, and go on receiving.

        Our record stays until its lease ends, or the next process replaces it.
        """
        await self._publishing.aclose()

    async def leave(self) -> None:
        """Leave at once instead of when the lease ends. Updates from other hosts are no longer received."""
        await self.fall_silent()
        await self._watching.aclose()
        await self.remove_record()

    async def remove_record(self) -> None:
        """Unless another process has written its own under our name."""
        record = self._describe()
        with suppress(StoreError, Conflict):
            found = await self._store.read(Bucket.HOSTS, record.name)
            if found and (holder := _holder(found)) and holder.boot == record.boot:
                await self._store.remove(Bucket.HOSTS, record.name, found.revision)

    # The name

    async def _take_name(self) -> None:
        """A killed host leaves its lease behind: wait for it to expire, unless somebody renews it."""
        seen: Revision | None = None
        until = _now() + LEASE_S + AGAIN_S
        while True:
            try:
                return await self._publish()
            except NameTaken as refused:
                if seen not in (None, refused.revision) or _now() >= until:
                    raise
                seen = refused.revision
            await asyncio.sleep(AGAIN_S)

    async def _claim(self, record: HostRecord) -> Revision:
        """Take the name if it is free or ours."""
        value = encoded(record)
        with suppress(Conflict):
            return await self._store.create(Bucket.HOSTS, record.name, value)
        found = await self._store.read(Bucket.HOSTS, record.name)
        if found is None:
            raise StoreError(f"the lease of {record.name} ended while it was looked at")
        holder = _holder(found)
        if holder is None or not is_ours(holder, record, at_start=self._last is None):
            raise NameTaken(taken(holder, record), found.revision)
        return await self._store.replace(Bucket.HOSTS, record.name, value, found.revision)

    # Publishing

    async def _keep_publishing(self) -> None:
        await forever(self._publish_news, "publish this host")

    async def _publish_news(self) -> None:
        await self._until_worth_publishing(RENEW_S if self.connection is FleetConnection.CONNECTED else AGAIN_S)
        try:
            await self._publish()
        except NameTaken as refused:
            self._disconnect(refused)
            await asyncio.sleep(RENEW_S)

    async def _until_worth_publishing(self, at_most_s: Seconds) -> None:
        """Wait for a change on which others act. Load changes all the time: the next renewal publishes it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                while True:
                    await asyncio.sleep(BETWEEN_S)
                    await self._news.wait()
                    self._news.clear()  # before the comparison, so that later changes are seen next time
                    if routing_summary(self._describe()) != self._note_load:
                        return

    async def _publish(self) -> None:
        record, self._note_load = self._describe(), None
        try:
            await self._catalog.keep(record.catalog)
            await self._write(record)
        except (StoreError, Conflict) as problem:
            self._disconnect(problem)
        else:
            self._note_load = routing_summary(record)
            self._connect()

    async def _write(self, record: HostRecord) -> None:
        with suppress(Conflict):
            if self._last is not None:
                self._last = await self._store.replace(Bucket.HOSTS, record.name, encoded(record), self._last)
                return
        self._last = await self._claim(record)

    # The connection

    @property
    def problem(self) -> str:
        """Why this host is disconnected; empty while it is not."""
        return "" if self._problem is None else str(self._problem)

    def _disconnect(self, problem: StoreError | Conflict | NameTaken) -> None:
        before, self._problem = self._problem, problem
        if isinstance(problem, NameTaken):
            # Not only at a change of the connection: the name may have been taken while NATS was away.
            if not isinstance(before, NameTaken):
                log.warning("another host has the name of this one, which serves alone error=%r", str(problem))
        elif self.connection is not FleetConnection.DISCONNECTED:
            log.warning("disconnected from the fleet error=%r", str(problem))
        self._turn(FleetConnection.DISCONNECTED)

    def _connect(self) -> None:
        self._problem = None
        if self.connection is not FleetConnection.CONNECTED:
            log.info("connected to the fleet host=%s", self._describe().name)
        self._turn(FleetConnection.CONNECTED)

    def _turn(self, connection: FleetConnection) -> None:
        if connection is not self.connection:
            self.connection = connection
            self._turned(connection)

    # Receiving

    def _start_watching(self) -> None:
        for bucket in Bucket:
            self._watching.start(self._keep_watching(bucket), f"watch the fleet's {bucket.value}")

    async def _keep_watching(self, bucket: Bucket) -> None:
        async def watch() -> None:
            try:
                async for change in self._store.watch(bucket):
                    self._take(bucket, change)
                    await asyncio.sleep(0)  # many arrive together, and others must get their turn between them
            except Exception:  # the next turn receives the whole state
                self._take(bucket, BegunAnew())
                raise

        await forever(watch, f"watch the fleet's {bucket.value}")

    def _take(self, bucket: Bucket, change: Change) -> None:
        if bucket is Bucket.CATALOGS:
            self._catalog.notice(change)
        self._on_change(bucket, change)


def _holder(found: Written) -> HostRecord | None:
    try:
        return decoded(found.value, HostRecord)
    except ValueError:
        return None


def _now() -> Instant:
    return asyncio.get_running_loop().time()


class CatalogLease:
    """Keeps the catalog in the store. Of all hosts with the same one, the first whose timer fires renews it."""

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
