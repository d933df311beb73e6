"""A SQLite file of records: its format, and what becomes of one that is broken or of another format."""

from __future__ import annotations

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

BUSY_S: Seconds = 5.0
"""How long another program may lock the file."""


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
