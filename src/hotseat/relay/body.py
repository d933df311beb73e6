"""A request's body, read whole before anybody is asked for a lease: a slow upload holds no model.

Small bodies and those whose JSON must be read stay in memory; the rest goes to an unlinked file, so that two hundred
megabytes of audio cost two hundred megabytes of disk and nothing else.
"""

from __future__ import annotations

import mmap
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.terms import Bytes

IN_MEMORY: Bytes = 1 << 20
PIECE: Bytes = 256 << 10


class Body:
    __slots__ = ("_file", "_may_spool", "_parts", "counted", "size")

    def __init__(self, *, may_spool: bool) -> None:
        self._parts: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._may_spool = may_spool
        self.size: Bytes = 0
        self.counted: Bytes = 0
        """As what it counts among all that bodies take of the memory."""

    @classmethod
    def of(cls, content: bytes) -> Body:
        """One that came whole with its head."""
        body = cls(may_spool=False)
        body._parts, body.size = [content], len(content)
        return body

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self._file is not None:
            self._file.write(part)
        else:
            self._parts.append(part)
            if self._may_spool and self.size > IN_MEMORY:
                self._spool()

    @property
    def in_memory(self) -> Bytes:
        """How much of it takes memory."""
        return 0 if self._file is not None else self.size

    @property
    def is_spooled(self) -> bool:
        return self._file is not None

    def whole(self) -> bytes:
        """All of it; what was put on disk comes back into memory."""
        if self._file is not None:
            self._parts, file, self._file = [self.pieces_from(0, self.size)], self._file, None
            file.close()
        if len(self._parts) != 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]

    @contextmanager
    def seen(self) -> Iterator[bytes | memoryview]:
        """All of it to look at, without taking memory for what is on disk."""
        if self._file is None:
            yield self.whole()
            return
        self._file.flush()
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            yield view

    def replace(self, content: bytes) -> None:
        self._parts, self.size = [content], len(content)

    def pieces_from(self, offset: int, length: Bytes = PIECE) -> bytes:
        """The next piece of a spooled body; empty at its end."""
        assert self._file is not None
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        self._parts = []
        if self._file is not None:
            self._file.close()

    def _spool(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="hotseat-body-")  # noqa: SIM115 - lives as long as the body
        self._file.writelines(self._parts)
        self._parts = []
