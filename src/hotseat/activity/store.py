"""Finished requests on disk, kept as long as configured: who requested what, when, and the outcome.

Written a few times a second. What cannot be written is lost and counted. Contents and query strings are never stored.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING

from hotseat.activity.recent import Finished, Tokens
from hotseat.activity.record_file import Format, RecordFile, RecordWriter
from hotseat.identifiers import ClientId, ModelName
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hotseat.activity.recent import Activity
    from hotseat.identifiers import Seconds

ACTIVITY_FILE = "activity.sqlite3"
EVERY_S: Seconds = 0.25
"""Between two writes: the 1,000 requests in memory are enough for 4,000 a second."""

TABLE = """
create table if not exists requests (
    n integer primary key, at real not null, id text not null, model text not null, client text not null,
    method text not null, path text not null, status integer not null, waited_s real not null, first_byte_s real,
    seconds real not null, prompt_tokens integer, completion_tokens integer, tokens_per_s real,
    why text not null, cached_tokens integer);
create index if not exists requests_by_time on requests (at);
"""
FORMAT = Format(3, TABLE)
INSERT = "insert into requests values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
MOST_ROWS = 1_000_000
SELECT = "select * from requests where at > ? and (? is null or model = ?) order by n desc limit ?"


class ActivityStore:
    """The file."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self.file = RecordFile(path, FORMAT, wall_clock)
        self._wall_clock = wall_clock

    def write(self, ended: Sequence[Finished]) -> None:
        """Writes all or none; raises if it cannot."""
        with self.file.opened() as file, file:
            file.executemany(INSERT, map(_row, ended))

    def tidy(self, keep_s: Seconds) -> None:
        """Delete requests that are too old, and the oldest beyond the maximum."""
        with self.file.opened() as file, file:
            file.execute("delete from requests where at < ?", (self._wall_clock() - keep_s,))
            file.execute("delete from requests where n <= (select max(n) from requests) - ?", (MOST_ROWS,))

    def read(self, since: float, model: str | None, most: int) -> list[Finished]:
        """The newest that ended after `since`, oldest first; empty if there is no file."""
        if not self.file.path.exists():
            return []
        with self.file.readable() as file:
            return [_finished(row) for row in file.execute(SELECT, (since, model, model, most))][::-1]


def _row(ended: Finished) -> tuple[object, ...]:
    tokens = ended.tokens or Tokens(None, None, None)
    method, path = ended.method.decode("latin-1"), ended.target.partition(b"?")[0].decode("latin-1")
    about = (ended.at, ended.id.decode(), ended.model, ended.client, method, path, ended.status)
    times = (ended.waited_s, ended.first_byte_s, ended.seconds)
    return (*about, *times, tokens.prompt, tokens.completion, ended.tokens_per_s, ended.why, tokens.cached)


def _finished(row: tuple[object, ...]) -> Finished:
    n, at, name, model, client, method, path, status, waited_s, first_byte_s, seconds, *counts, why, cached = row
    tokens = Tokens(*counts, cached)  # type: ignore[arg-type, call-arg]  # as `_row` wrote them
    return Finished(
        n=int(str(n)),
        at=float(str(at)),
        model=ModelName(str(model)),
        client=ClientId(str(client)),
        method=str(method).encode("latin-1"),
        target=str(path).encode("latin-1"),
        status=int(str(status)),
        waited_s=float(str(waited_s)),
        first_byte_s=None if first_byte_s is None else float(str(first_byte_s)),
        seconds=float(str(seconds)),
        id=str(name).encode(),
        tokens=None if counts == [None] * 3 else tokens,
        why=str(why),
    )


class StoreWriter:
    """Writes finished requests to the file, if configured."""

    def __init__(self, activity: Activity, store: ActivityStore, keep_s: Callable[[], Seconds]) -> None:
        self._activity = activity
        self._store = store
        self._keep_s = keep_s
        self._written = activity.n
        self._writer = RecordWriter(store.file)
        self.lost = 0
        """Requests that could not be written."""

    async def watch(self) -> None:
        """Never returns. To stop, cancel it and call `close`."""
        await forever(self._write, "activity", EVERY_S)

    async def close(self) -> None:
        """Write the rest."""
        await self._write()

    async def read(self, since: float, model: str | None, most: int) -> list[Finished]:
        """The newest that ended after `since`, oldest first: from the file, or from memory if none is kept."""
        if self._keep_s():
            await self._write()
            return await asyncio.to_thread(self._store.read, since, model, most)
        fits = [ended for ended in self._activity.recent() if ended.at > since and model in (None, ended.model)]
        return fits[-most:]

    async def _write(self) -> None:
        """Whoever comes during another write waits for it, and then writes the rest."""
        await self._writer.idle()
        keep_s, ended = self._keep_s(), self._activity.recent(self._written)
        missed = self._activity.n - self._written - len(ended)
        self._written = self._activity.n
        if not keep_s or not (ended or self._writer.is_untidy):
            return
        self.lost += missed
        await self._writer.run(partial(self._write_or_count, ended), partial(self._store.tidy, keep_s))

    def _write_or_count(self, ended: Sequence[Finished]) -> None:
        try:
            self._store.write(ended)
        except (sqlite3.Error, OSError):
            self.lost += len(ended)
            raise
