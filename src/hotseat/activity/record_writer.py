"""Writes records in a thread, one write at a time, so that no request waits for the disk.

Nothing depends on the file: what goes wrong is logged once per outage, and a file that is no database is set aside.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.activity.record_file import RecordFile
    from hotseat.identifiers import Seconds

log = logging.getLogger(__name__)

TIDY_EVERY_S: Seconds = 600.0


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
