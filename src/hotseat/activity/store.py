"""Finished requests on disk, kept as long as configured: who requested what, when, and the outcome.

SQLite, written from a thread a few times a second, so that no request waits for the disk. Nothing depends on it: what
cannot be written is lost, counted and logged. A broken file is set aside. Contents and query strings are never stored.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hotseat.activity.recent import Finished, Tokens
from hotseat.errors import HotseatError
from hotseat.identifiers import ClientId, ModelName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hotseat.activity.recent import Activity
    from hotseat.identifiers import Seconds
    from hotseat.settings import ActivityKept

log = logging.getLogger(__name__)

EVERY_S: Seconds = 0.25
"""Between two writes: the 1,000 requests in memory are enough for 4,000 a second."""
TIDY_EVERY_S: Seconds = 600.0
BUSY_S: Seconds = 5.0
"""How long another program may lock the file."""
FORMAT = 3

TABLE = """
create table if not exists requests (
    n integer primary key, at real not null, id text not null, model text not null, client text not null,
    method text not null, path text not null, status integer not null, waited_s real not null, first_byte_s real,
    seconds real not null, prompt_tokens integer, completion_tokens integer, tokens_per_s real,
    why text not null default '', cached_tokens integer);
create index if not exists requests_by_time on requests (at);
"""
FROM_2 = "alter table requests add column cached_tokens integer;"
FROM_1 = "alter table requests add column why text not null default '';" + FROM_2
INSERT = "insert into requests values (null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
OLDER = {1: FROM_1, 2: FROM_2}
SELECT = "select * from requests where at > ? and (? is null or model = ?) order by n desc limit ?"


class ActivityStore:
    """The file. Every call opens it, so it may be moved or deleted at any time."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall_clock = wall_clock

    def write(self, ended: Sequence[Finished]) -> None:
        """Writes all or none; raises if it cannot."""
        with self._opened() as file, file:
            file.executemany(INSERT, map(_row, ended))

    def tidy(self, kept: ActivityKept) -> None:
        """Delete requests that are too old, and the oldest beyond the maximum."""
        with self._opened() as file, file:
            file.execute("delete from requests where at < ?", (self._wall_clock() - kept.keep_s,))
            file.execute("delete from requests where n <= (select max(n) from requests) - ?", (kept.most,))

    def read(self, since: float, model: str | None, most: int) -> list[Finished]:
        """The newest that ended after `since`, oldest first; empty if there is no file."""
        if not self.path.exists():
            return []
        with self._opened() as file:
            return [_finished(row) for row in file.execute(SELECT, (since, model, model, most))][::-1]

    def put_aside(self) -> Path:
        """Move a broken file away so that a new one can be created."""
        aside = self.path.with_name(f"{self.path.name}.broken-{int(self._wall_clock())}")
        self.path.replace(aside)
        return aside

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as file:
            found = file.execute("pragma user_version").fetchone()[0]
            if found not in (0, *OLDER, FORMAT):
                raise OSError(f"its format is {found}, but this version of hotseat needs {FORMAT}")
            if found == 0:
                file.execute("pragma journal_mode = wal")
                file.executescript(f"{TABLE} pragma user_version = {FORMAT};")
            if found in OLDER:
                file.executescript(f"begin; {OLDER[found]} pragma user_version = {FORMAT}; commit;")
            file.execute("pragma synchronous = normal")
            yield file


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

    def __init__(self, activity: Activity, store: ActivityStore, kept: Callable[[], ActivityKept]) -> None:
        self._activity = activity
        self._store = store
        self._kept = kept
        self._written = activity.n
        self._writing: asyncio.Future[None] | None = None
        """The last write. A cancelled task does not cancel it."""
        self._tidied_at: float | None = None
        self._is_well = True
        self.lost = 0
        """Requests that could not be written."""

    async def watch(self) -> None:
        """Never returns. To stop, cancel it and call `close`."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self._write()

    async def close(self) -> None:
        """Write the rest."""
        await self._write()

    async def read(self, since: float, model: str | None, most: int) -> list[Finished]:
        """The newest that ended after `since`, oldest first: from the file, or from memory if none is kept."""
        if self._kept().keep_s:
            await self._write()
            return await asyncio.to_thread(self._read_from_file, since, model, most)
        fits = [ended for ended in self._activity.recent() if ended.at > since and model in (None, ended.model)]
        return fits[-most:]

    def _read_from_file(self, since: float, model: str | None, most: int) -> list[Finished]:
        try:
            return self._store.read(since, model, most)
        except (sqlite3.Error, OSError) as problem:
            raise HotseatError(f"{self._store.path} cannot be read: {problem}. See the log for details.") from problem

    async def _write(self) -> None:
        """One write at a time: whoever comes during another one waits for it, and then writes the rest."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        kept, ended = self._kept(), self._activity.recent(self._written)
        missed = self._activity.n - self._written - len(ended)
        self._written = self._activity.n
        if not kept.keep_s or not (ended or self._is_untidy()):
            return
        self.lost += missed
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._write_or_log, kept, ended)
        await asyncio.wait([self._writing])
        self._writing.result()

    def _is_untidy(self) -> bool:
        return self._tidied_at is None or time.monotonic() > self._tidied_at + TIDY_EVERY_S

    def _write_or_log(self, kept: ActivityKept, ended: Sequence[Finished]) -> None:
        try:
            if ended:
                self._store.write(ended)
            if self._is_untidy():
                self._tidied_at = time.monotonic()
                self._store.tidy(kept)
        except (sqlite3.Error, OSError) as problem:
            self.lost += len(ended)
            return self._log_problem(problem)
        if not self._is_well:
            log.info("activity is stored on disk again file=%s lost=%d", self._store.path, self.lost)
        self._is_well = True
        return None

    def _log_problem(self, problem: Exception) -> None:
        """Log once per outage. A file that is no database will not recover, so it is set aside."""
        if self._is_well:
            log.warning("activity cannot be stored on disk file=%s error=%r", self._store.path, str(problem))
        self._is_well = False
        if isinstance(problem, sqlite3.DatabaseError) and not isinstance(problem, sqlite3.OperationalError):
            self._put_aside()

    def _put_aside(self) -> None:
        try:
            log.warning("the corrupt activity file was renamed file=%s", self._store.put_aside())
        except OSError as problem:
            log.warning("the corrupt activity file cannot be renamed error=%r", str(problem))
