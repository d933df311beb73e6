"""A SQLite file of records: its format, what becomes of one that is broken or of another format, and how it is written.

Records are written in a thread, one write at a time, so that no request waits for the disk. Nothing
depends on the file: what goes wrong is logged once per outage, and a file that is no database is set aside.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.errors import HotseatError, NewerFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)
BUSY_S: Seconds = 5.0
"""How long another program may lock the file."""
TIDY_EVERY_S: Seconds = 600.0


class Format(Struct, frozen=True):
    version: int
    tables: str
    """Made if they are missing; one that is added later does not change the version."""


class RecordFile:
    """Every use opens it, so it may be moved or deleted at any time."""

    def __init__(self, path: Path, form: Format, wall_clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._form = form
        self._wall_clock = wall_clock

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as file:
            self._create_tables_or_check_version(file)
            file.execute("pragma synchronous = normal")
            yield file

    @contextmanager
    def readable(self) -> Iterator[sqlite3.Connection]:
        """Like `opened`, for an answer to somebody: what goes wrong is an error with an explanation."""
        try:
            with self.opened() as file:
                yield file
        except NewerFormat as problem:
            raise HotseatError(f"{self.path} {problem}") from problem
        except (sqlite3.Error, OSError) as problem:
            raise HotseatError(f"{self.path} cannot be read: {problem}. See the log for details.") from problem

    def put_aside(self) -> Path:
        """Move a broken file away so that a new one can be created."""
        aside = self.path.with_name(f"{self.path.name}.broken-{int(self._wall_clock())}")
        self.path.replace(aside)
        return aside

    def _create_tables_or_check_version(self, file: sqlite3.Connection) -> None:
        form, found = self._form, file.execute("pragma user_version").fetchone()[0]
        if found > form.version:
            raise NewerFormat(found, form.version)
        if found not in (0, form.version):
            raise sqlite3.DatabaseError(f"its format is {found}, and this version reads {form.version}")
        if found == 0:
            file.execute("pragma journal_mode = wal")
        file.executescript(form.tables)
        if found == 0:
            file.execute(f"pragma user_version = {form.version}")


class RecordWriter:
    def __init__(self, file: RecordFile) -> None:
        self._file = file
        self._writing: asyncio.Future[None] | None = None
        """The last write. A cancelled task does not cancel it."""
        self._tidied_at: float | None = None
        self._is_well = True

    @property
    def is_untidy(self) -> bool:
        """Is it time to delete old records?"""
        return self._tidied_at is None or time.monotonic() > self._tidied_at + TIDY_EVERY_S

    async def idle(self) -> None:
        """Return when no write is in progress."""
        while self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])

    async def run(self, write: Callable[[], None], tidy: Callable[[], None]) -> None:
        """Call only after `idle`. What they raise for the file's sake is logged; nothing is raised."""
        self._writing = asyncio.get_running_loop().run_in_executor(None, self._write_or_log, write, tidy)
        await asyncio.wait([self._writing])
        self._writing.result()

    def _write_or_log(self, write: Callable[[], None], tidy: Callable[[], None]) -> None:
        try:
            write()
            if self.is_untidy:
                self._tidied_at = time.monotonic()
                tidy()
        except (sqlite3.Error, OSError) as problem:
            return self._log_problem(problem)
        if not self._is_well:
            log.info("records are stored on disk again file=%s", self._file.path)
        self._is_well = True
        return None

    def _log_problem(self, problem: Exception) -> None:
        if self._is_well:
            log.warning("records cannot be stored on disk file=%s error=%r", self._file.path, str(problem))
        self._is_well = False
        # Such a file does not recover.
        if isinstance(problem, sqlite3.DatabaseError) and not isinstance(problem, sqlite3.OperationalError):
            self._put_aside()

    def _put_aside(self) -> None:
        try:
            log.warning("a corrupt file of records was renamed file=%s", self._file.put_aside())
        except OSError as problem:
            log.warning("a corrupt file of records cannot be renamed error=%r", str(problem))
