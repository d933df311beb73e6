"""Keeps what the scheduler learned across restarts, in one small file of the state directory.

Nothing depends on it: a file that cannot be read or written costs a warning and a little learning.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.scheduling.events import UpstreamReady

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotseat.journal import Entry
    from hotseat.scheduling.habits import Habits
    from hotseat.terms import Instant, Seconds

log = logging.getLogger(__name__)

BETWEEN_SAVES_S: Seconds = 60.0


def state_file(environ: Mapping[str, str]) -> Path:
    """Where systemd says, else where the desktop's standard says."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0]) / "habits.json"
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/")) / ".local" / "state"
    return Path(home) / "hotseat" / "habits.json"


class Keeper:
    def __init__(self, file: Path, habits: Habits, clock: Callable[[], Instant] = time.monotonic) -> None:
        self._file = file
        self._habits = habits
        self._clock = clock
        self._saved_at: Instant = float("-inf")
        self._has_warned = False

    def recall(self) -> None:
        """Believe what an earlier run wrote down, if it did."""
        self._habits.adopt(self._read())

    def watch(self, entry: Entry) -> None:
        """A load teaches most; give this to `Journal.listen`."""
        if isinstance(entry.event, UpstreamReady) and self._clock() - self._saved_at >= BETWEEN_SAVES_S:
            self.save()

    def save(self) -> None:
        """Write all of it, or nothing; what another configuration learned of other models stays."""
        self._saved_at = self._clock()
        text = json.dumps({**self._read(), **self._habits.export()}, indent=1)
        draft = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(text)
            draft.replace(self._file)
        except OSError as problem:
            self._complain(problem)

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as problem:
            self._complain(problem)
            return {}
        return known if isinstance(known, dict) else {}

    def _complain(self, problem: Exception) -> None:
        if not self._has_warned:
            log.warning("what was learned cannot be kept file=%s error=%r", self._file, str(problem))
            self._has_warned = True
