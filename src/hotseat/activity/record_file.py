"""A SQLite file of records: its format, and what becomes of one that is broken."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hotseat.errors import HotseatError, NewerFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hotseat.identifiers import Seconds

BUSY_S: Seconds = 5.0
"""How long another program may lock the file."""


class Format(Struct, frozen=True):
    version: int
    tables: str
    upgrades: Mapping[int, str] = field(default_factory=dict)
    """From each older version to this one."""
    additions: str = ""
    """Tables, made if they are missing, that earlier programs of the same version do not know and leave alone."""


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
            self._bring_up_to_date(file)
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

    def _bring_up_to_date(self, file: sqlite3.Connection) -> None:
        form, found = self._form, file.execute("pragma user_version").fetchone()[0]
        if found not in (0, *form.upgrades, form.version):
            raise NewerFormat(found, form.version)
        if found == 0:
            file.execute("pragma journal_mode = wal")
            file.executescript(f"{form.tables} pragma user_version = {form.version};")
        if found in form.upgrades:
            file.executescript(f"begin; {form.upgrades[found]} pragma user_version = {form.version}; commit;")
        if form.additions:
            file.execute(form.additions)
