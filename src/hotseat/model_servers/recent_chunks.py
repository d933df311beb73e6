"""The last 256 KiB of a server's output, with the times at which it was read.

A chunk costs one append; lines and their times are found when somebody reads them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.identifiers import Bytes, Seconds

KEPT: Bytes = 256 << 10
SMALL: Bytes = 4 << 10
MERGED_S: Seconds = 0.05
"""Small chunks within this time become one, or a million dots would be a million objects. Times are this precise."""
MOST_CHUNKS = 8192
"""A dot every second would otherwise become 256 thousand objects in three days."""


class Chunk(NamedTuple):
    at: float
    """Wall-clock time at which it was read."""
    data: bytes


TimedLine = tuple[float, bytes]
"""A line and the time at which its end was read: a progress bar's line is its last state."""


class RecentChunks:
    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._size: Bytes = 0
        self.dropped: Bytes = 0
        """Since the start."""

    def add(self, chunk: Chunk) -> None:
        self._size += len(chunk.data)
        last = self._chunks[-1] if self._chunks else None
        if last and len(last.data) < SMALL and abs(chunk.at - last.at) < MERGED_S:
            self._chunks[-1] = Chunk(last.at, last.data + chunk.data)
        else:
            self._chunks.append(chunk)
        while self._size - len(self._chunks[0].data) >= KEPT or len(self._chunks) > MOST_CHUNKS:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        size = len(self._chunks.popleft().data)
        self._size -= size
        self.dropped += size

    def last_lines(self, count: int, since: Bytes = 0) -> list[TimedLine]:
        """The last lines of what was added after the first `since` bytes, an unfinished one included."""
        first = max(0, since - self.dropped)
        fresh = self._joined()[first:].rstrip(b"\r\n")
        if not fresh or count <= 0:
            return []
        lines = fresh.rsplit(b"\n", count)[-count:]
        return self._timed(lines, first + len(fresh) - len(b"\n".join(lines)))

    def take_lines(self) -> list[TimedLine]:
        """Remove the complete lines and return them."""
        complete, end, rest = self._joined().rpartition(b"\n")
        if not end:
            return []
        lines = self._timed(complete.split(b"\n"), 0)
        self._chunks = deque([Chunk(self._chunks[-1].at, rest)])
        self._size = len(rest)
        return lines

    def _joined(self) -> bytes:
        return b"".join(chunk.data for chunk in self._chunks)

    def _timed(self, lines: Sequence[bytes], first: Bytes) -> list[TimedLine]:
        """The lines with their times; the first of them begins at byte `first`."""
        limits = [*accumulate(len(chunk.data) for chunk in self._chunks)]
        times = [chunk.at for chunk in self._chunks]
        times.append(times[-1])  # of an unfinished line, whose end is beyond the last chunk
        ends = accumulate((len(line) + 1 for line in lines), initial=first - 1)
        next(ends)
        return [(times[bisect_right(limits, end)], line) for end, line in zip(ends, lines, strict=True)]
