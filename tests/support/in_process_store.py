"""The store of a fleet within one process, for tests of fleets with many hosts.

Stores that share a board form one fleet. Each can be disconnected and reconnected, as a host loses and regains NATS.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotseat.fleet.store import (
    LIVES_S,
    BegunAnew,
    Bucket,
    CaughtUp,
    Change,
    Conflict,
    Removed,
    Revision,
    StoreError,
    Written,
    checked,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from hotseat.identifiers import Instant, Seconds


class Board:
    """Contents, watchers and expiry times of the buckets."""

    def __init__(
        self, clock: Callable[[], Instant] = time.monotonic, lives_s: Mapping[Bucket, Seconds | None] = LIVES_S
    ) -> None:
        self._clock = clock
        self._lives_s = lives_s
        self._revision = 0
        self._current: dict[Bucket, dict[str, Written]] = {bucket: {} for bucket in Bucket}
        self._ends: dict[tuple[Bucket, str], Instant] = {}
        """Of each lease."""
        self._watchers: dict[Bucket, list[Watcher]] = {bucket: [] for bucket in Bucket}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at: Instant = 0.0

    def current(self, bucket: Bucket) -> dict[str, Written]:
        self.lapse()
        return self._current[bucket]

    def write(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        written = Written(key, value, self._next())
        self._current[bucket][key] = written
        if (lives_s := self._lives_s[bucket]) is not None:
            self._ends[bucket, key] = self._clock() + lives_s
            self._set_timer()
        self._notify(bucket, written)
        return written.revision

    def remove(self, bucket: Bucket, key: str) -> None:
        if self._current[bucket].pop(key, None) is None:
            return
        self._ends.pop((bucket, key), None)
        self._notify(bucket, Removed(key, self._next()))

    def lapse(self) -> None:
        """End expired leases."""
        now = self._clock()
        for bucket, key in [lease for lease, end in self._ends.items() if end <= now]:
            self.remove(bucket, key)

    @contextmanager
    def watching(self, bucket: Bucket, watcher: Watcher) -> Iterator[None]:
        self._watchers[bucket].append(watcher)
        try:
            yield
        finally:
            self._watchers[bucket].remove(watcher)

    def _next(self) -> Revision:
        self._revision += 1
        return Revision(self._revision)

    def _notify(self, bucket: Bucket, change: Written | Removed) -> None:
        for watcher in self._watchers[bucket]:
            watcher.notice(change)

    def _set_timer(self) -> None:
        """For the lease that ends first; the timer has no effect on one that was renewed since."""
        first = min(self._ends.values(), default=None)
        if first is None or (self._timer and first >= self._rings_at):
            return
        if self._timer:
            self._timer.cancel()
        self._rings_at = first
        self._timer = asyncio.get_running_loop().call_later(max(0.0, first - self._clock()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.lapse()
        self._set_timer()


class Watcher:
    """Holds the latest change of each key until it is read; like NATS, it drops overwritten values."""

    def __init__(self) -> None:
        self._noticed: dict[str, Written | Removed] = {}
        self._stirred = asyncio.Event()
        self.is_cut = False

    def notice(self, change: Written | Removed) -> None:
        self._noticed.pop(change.key, None)
        self._noticed[change.key] = change
        self._stirred.set()

    def cut(self) -> None:
        self.is_cut = True
        self._stirred.set()

    async def changes(self) -> AsyncIterator[Written | Removed]:
        """Changes until the watcher is cut off; unread ones are then dropped."""
        while not self.is_cut:
            if self._noticed:
                yield self._noticed.pop(next(iter(self._noticed)))
                continue
            self._stirred.clear()
            await self._stirred.wait()


class InProcess:
    """One host's connection to the board."""

    def __init__(self, board: Board | None = None) -> None:
        self._board = board or Board()
        self._watchers: list[Watcher] = []
        self._let_in = asyncio.Event()
        self._let_in.set()

    @property
    def is_connected(self) -> bool:
        return self._let_in.is_set()

    def cut_off(self) -> None:
        """Fail reads and writes, and stop watches, until `let_in`."""
        self._let_in.clear()
        for watcher in self._watchers:
            watcher.cut()

    def let_in(self) -> None:
        self._let_in.set()

    async def create(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        return self._write_after(bucket, key, value, None)

    async def replace(self, bucket: Bucket, key: str, value: bytes, last: Revision) -> Revision:
        return self._write_after(bucket, key, value, last)

    async def put(self, bucket: Bucket, key: str, value: bytes) -> Revision:
        self._current(bucket)
        return self._board.write(bucket, checked(key), value)

    async def remove(self, bucket: Bucket, key: str, last: Revision | None = None) -> None:
        found = self._current(bucket).get(checked(key))
        if last is not None and (found is None or found.revision != last):
            raise Conflict(f"{bucket.value}/{key} was changed in the meantime")
        self._board.remove(bucket, key)

    async def read(self, bucket: Bucket, key: str) -> Written | None:
        return self._current(bucket).get(checked(key))

    async def watch(self, bucket: Bucket) -> AsyncIterator[Change]:
        await self._let_in.wait()
        while True:
            async for change in self._watched(bucket):
                yield change
            await self._let_in.wait()
            yield BegunAnew()

    async def aclose(self) -> None:
        self.cut_off()

    def _current(self, bucket: Bucket) -> Mapping[str, Written]:
        if not self.is_connected:
            raise StoreError("cut off from the board")
        return self._board.current(bucket)

    def _write_after(self, bucket: Bucket, key: str, value: bytes, last: Revision | None) -> Revision:
        found = self._current(bucket).get(checked(key))
        if (found.revision if found else None) != last:
            raise Conflict(f"{bucket.value}/{key} was changed in the meantime")
        return self._board.write(bucket, key, value)

    async def _watched(self, bucket: Bucket) -> AsyncIterator[Change]:
        watcher = Watcher()
        current = tuple(self._board.current(bucket).values())
        self._watchers.append(watcher)
        try:
            with self._board.watching(bucket, watcher):
                for written in current:
                    yield written
                yield CaughtUp()
                async for change in watcher.changes():
                    yield change
        finally:
            self._watchers.remove(watcher)
