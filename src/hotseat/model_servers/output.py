"""Output of the servers: kept per model with the time of each line, followed live, and copied to hotseat's own.

Bytes are read from the pipe in large chunks, a few times a second, and split into lines only when somebody reads: a
server that writes a lot costs little and never blocks. Lines are shown without terminal control codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import time
from bisect import bisect_right
from collections import deque
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hotseat.model_servers.guarded_process import PipeEnds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence

    from hotseat.identifiers import Bytes, ModelName, Seconds

READ_SIZE = 256 << 10
GATHER_S: Seconds = 0.05
"""llama-server writes a line in five pieces and fifteen lines per request: waking up for each cost more than the
request itself."""
BABBLE = 16 << 10
"""A writer this fast is read without a pause, so that the pipe does not fill and block it."""
SKIPPED = "(some output was skipped here)"
KEPT: Bytes = 256 << 10
SMALL: Bytes = 4 << 10
MERGED_S: Seconds = 0.05
"""Small chunks within this time become one, or a million dots would be a million objects. Times are this precise."""
MOST_CHUNKS = 8192
"""A dot every second would otherwise become 256 thousand objects in three days."""
LONGEST_LINE = 16 << 10
"""Bytes; a longer line is split."""


class Line(NamedTuple):
    at: float
    """Wall-clock time at which its end was read."""
    text: str


class Output:
    """The last 256 KiB of output of one model."""

    def __init__(
        self, stdout_copy: Callable[[bytes], None] | None = None, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._wall_clock = wall_clock
        self._recent = RecentChunks()
        self._followers: list[Follower] = []
        self._secrets: tuple[str, ...] = ()
        self._stdout_copy = stdout_copy
        self._half_line = b""
        """Held back if there are secrets: a chunk may end within one."""
        self._is_amid_line = False
        self.written = 0
        """Bytes ever written: a position for `since`."""

    def feed(self, data: bytes) -> None:
        chunk = Chunk(self._wall_clock(), data)
        self.written += len(data)
        self._recent.add(chunk)
        for follower in self._followers:
            follower.offer(chunk)
        self._copy(data)

    def end_line(self) -> None:
        """The writer has ended: copy an unfinished last line now."""
        if self._is_amid_line:
            self._copy(b"\n")

    def conceal(self, secrets: Iterable[str]) -> None:
        """Never show these words: some servers print their command line."""
        self._secrets = tuple(secrets)

    def _copy(self, chunk: bytes) -> None:
        if self._stdout_copy:
            self._stdout_copy(self._veiled(chunk) if self._secrets else chunk)
            self._is_amid_line = not chunk.endswith(b"\n")

    def _veiled(self, chunk: bytes) -> bytes:
        """Complete lines without secrets; an unfinished line is held back until it ends or gets long."""
        text = self._half_line + chunk
        end = text.rfind(b"\n") + 1 if len(text) - text.rfind(b"\n") <= SMALL else len(text)
        whole, self._half_line = text[:end], text[end:]
        for secret in self._secrets:
            whole = whole.replace(secret.encode(), b"***")
        return whole

    def tail(self, lines: int = 20, since: int = 0) -> list[Line]:
        """The last lines as plain text; `since` is a value of `written`."""
        return [self._readable(line) for line in self._recent.last_lines(lines, since)]

    def newest(self, lines: int) -> Iterator[Line]:
        """The last lines, newest first. Each is cleaned when it is taken, since that is most of the work."""
        return map(self._readable, reversed(self._recent.last_lines(lines)))

    @property
    def is_followed(self) -> bool:
        return bool(self._followers)

    async def follow(self) -> AsyncGenerator[Line, None]:
        """New lines as they are written. A slow reader misses some and sees a note."""
        follower = Follower()
        self._followers.append(follower)
        try:
            while True:
                for line in await follower.lines():
                    yield self._readable(line)
        finally:
            self._followers.remove(follower)

    def _readable(self, line: TimedLine) -> Line:
        at, data = line
        text = plain_line(data)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return Line(at, text)


class Follower:
    def __init__(self) -> None:
        self._unread = RecentChunks()
        self._missed = 0
        """Bytes that a note has reported."""
        self._news = asyncio.Event()

    def offer(self, chunk: Chunk) -> None:
        self._unread.add(chunk)
        if b"\n" in chunk.data:
            self._news.set()

    async def lines(self) -> list[TimedLine]:
        """The complete lines so far; waits for the first."""
        while not (lines := self._unread.take_lines()):
            self._news.clear()
            await self._news.wait()
        if self._unread.dropped > self._missed:
            self._missed = self._unread.dropped
            lines[0] = (lines[0][0], SKIPPED.encode())  # the first line is incomplete
        return lines


class Outputs:
    def __init__(self, stdout_copy: Callable[[ModelName, bytes], None] | None = None) -> None:
        self._stdout_copy = stdout_copy
        self._outputs: dict[ModelName, Output] = {}

    def of(self, model: ModelName) -> Output:
        if model not in self._outputs:
            self._outputs[model] = Output(partial(self._stdout_copy, model) if self._stdout_copy else None)
        return self._outputs[model]

    def keep(self, models: Collection[ModelName]) -> None:
        """Forget what all others have written, but not where a reader waits for more."""
        self._outputs = {name: each for name, each in self._outputs.items() if name in models or each.is_followed}


class Destination(Protocol):
    """Such as an Output."""

    def feed(self, data: bytes) -> None: ...
    def end_line(self) -> None: ...


class Pipe:
    """From a process to its output; read from its creation on."""

    def __init__(self, output: Destination, read_end: int | None = None) -> None:
        """With the read end of the pipe of a running process, or else a new pipe with a `write_end`."""
        self._output = output
        self._read_end, self.write_end = os.pipe() if read_end is None else (read_end, -1)
        os.set_blocking(self._read_end, False)
        with contextlib.suppress(OSError, AttributeError):  # Linux only, up to the user's limit
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, READ_SIZE)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        """The pipe is not read until it fires."""
        self._listen()

    def ends(self) -> PipeEnds:
        """For the guard: the write end, and a copy of the read end."""
        try:
            return PipeEnds(self.write_end, os.dup(self._read_end))
        except OSError:
            os.close(self.write_end)
            raise

    def close(self) -> None:
        """Read what was written so far and close. Safe to call twice."""
        if self._read_end < 0:
            return
        while self._read():
            pass
        self._let_go()

    def leave(self) -> None:
        """Close it, and leave what is unread to another hotseat process. Safe to call twice."""
        if self._read_end >= 0:
            self._let_go()

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._read_end, self._drain)

    def _drain(self) -> None:
        chunk = self._read()
        if chunk == b"":
            return self._let_go()
        if chunk and len(chunk) < BABBLE:
            self._loop.remove_reader(self._read_end)
            self._pause = self._loop.call_later(GATHER_S, self._listen)
        return None

    def _read(self) -> bytes | None:
        """Empty at the end, None if there is nothing yet."""
        try:
            chunk = os.read(self._read_end, READ_SIZE)
        except BlockingIOError:
            return None
        if chunk:
            self._output.feed(chunk)
        return chunk

    def _let_go(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = -1
        self._output.end_line()


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


# A string (title, link, clipboard) ends before the next ESC, as in terminals. A pattern that looked beyond would read
# the rest of the line once per ESC.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)"  # titles, links, clipboard
    r"|\x1b[ -/]*+[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def plain_line(line: bytes) -> str:
    """One line without terminal escapes; of a progress bar, its last state."""
    text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
    return _ESCAPE.sub("", text)


class StdoutCopy:
    def __init__(
        self, put: Callable[[Callable[[], bytes], Bytes], None], form: Callable[[ModelName, str], str]
    ) -> None:
        """`put` takes work for the writer's thread and the approximate size of its result."""
        self._put = put
        self._form = form
        self._unfinished: dict[ModelName, bytes] = {}

    def __call__(self, model: ModelName, chunk: bytes) -> None:
        self._put(partial(self._lines, model, chunk), len(chunk))

    def _lines(self, model: ModelName, chunk: bytes) -> bytes:
        """The complete lines so far: half of an escape sequence cannot be removed."""
        *complete, rest = (self._unfinished.pop(model, b"") + chunk).split(b"\n")
        if len(rest) > LONGEST_LINE:
            complete, rest = [*complete, rest], b""
        if rest:
            self._unfinished[model] = rest
        return "".join(f"{self._form(model, plain_line(line))}\n" for line in complete).encode()
