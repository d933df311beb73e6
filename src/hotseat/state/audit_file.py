"""An audit file: JSON lines, only ever appended to, of which the newest 60 MiB are kept in six files.

The file is opened for each line, so that it does not matter which of two processes has rotated it: at a restart both
write. A line is with the kernel when `write` returns, so it survives the end of hotseat, but not a loss of power within
the seconds until the kernel has written it to the disk.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hotseat.state.state_file import locked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotseat.identifiers import Bytes

AUDIT = "audit.jsonl"
UNPRIVILEGED = "audit-unprivileged.jsonl"
"""In the state directory. What callers below the role `operate` can cause is in the second one, so that it never pushes
an operator's lines out of the first."""
LARGEST: Bytes = 10 << 20
OLDER = 5
"""Files that are kept besides the current one."""


class AuditFile:
    def __init__(self, path: Path, largest: Bytes = LARGEST) -> None:
        self.path, self.largest = path, largest
        self._may_be_torn = True
        """The last line may be incomplete: of an earlier process that was killed, or of this one on a full disk."""

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append a line; OSError if it is not completely in the file."""
        line = f"{json.dumps(entry)}\n".encode()
        if self._append(line) >= self.largest:
            with suppress(OSError):  # the line is written, and the next one tries again
                self._rotate()

    def _append(self, line: bytes) -> Bytes:
        """The size of the file afterwards."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if self._may_be_torn and _is_torn(descriptor):
                line = b"\n" + line
            self._may_be_torn = os.write(descriptor, line) < len(line)
            if self._may_be_torn:
                raise OSError(0, "only a part of the line was written; the disk may be full")
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def _rotate(self) -> None:
        """Does not wait for another process that has the lock: this runs on the event loop."""
        with locked(self.path.parent):
            if self.path.stat().st_size < self.largest:
                return  # another process has rotated it
            for number in range(OLDER, 0, -1):
                younger = self._older(number - 1) if number > 1 else self.path
                if younger.exists():
                    younger.replace(self._older(number))

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _is_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
