"""Output of the servers: the last of it is kept per model and can be followed live.

Bytes are read from the pipe in large chunks, a few times a second, and split into lines only when somebody reads: a
server that writes a lot costs little and never blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from hotseat.model_servers.plain_text import plain_line

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from hotseat.identifiers import ModelName, Seconds

KEPT = 256 << 10
BEHIND = 256 << 10
"""How far a follower may lag before it misses output."""

READ_SIZE = 256 << 10
SMALL = 4 << 10
GATHER_S: Seconds = 0.05
"""llama-server writes a line in five pieces and fifteen lines per request: waking up for each cost more than the
request itself."""
BABBLE = 16 << 10
"""A writer this fast is read without a pause, so that the pipe does not fill and block it."""
SKIPPED = "(some output was skipped here)"


class Output:
    """The last 256 KiB of output of one model."""

    def __init__(self, stdout_copy: Callable[[bytes], None] | None = None) -> None:
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self._followers: list[Follower] = []
        self._secrets: tuple[str, ...] = ()
        self._stdout_copy = stdout_copy
        self._half_line = b""
        """Held back if there are secrets: a chunk may end within one."""
        self._is_amid_line = False
        self.written = 0
        """Bytes ever written: a position for `since`."""

    def feed(self, chunk: bytes) -> None:
        self._keep(chunk)
        for follower in self._followers:
            follower.offer(chunk)
        self._copy(chunk)

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

    def tail(self, lines: int = 20, since: int = 0) -> list[str]:
        """The last lines as plain text; `since` is a value of `written`."""
        kept = b"".join(self._chunks)
        fresh = kept[max(0, since - self.written + len(kept)) :].rstrip(b"\r\n")
        return [self._readable(line) for line in fresh.rsplit(b"\n", lines)[-lines:]] if fresh and lines > 0 else []

    async def follow(self) -> AsyncGenerator[str, None]:
        """New lines as they are written. A slow reader misses some and sees a note."""
        follower = Follower()
        self._followers.append(follower)
        try:
            while True:
                for line in await follower.lines():
                    yield self._readable(line)
        finally:
            self._followers.remove(follower)

    def _keep(self, chunk: bytes) -> None:
        self.written += len(chunk)
        self._kept += len(chunk)
        if self._chunks and len(self._chunks[-1]) < SMALL:  # or a million dots would be a million objects
            self._chunks[-1] += chunk
        else:
            self._chunks.append(chunk)
        while self._kept - len(self._chunks[0]) >= KEPT:
            self._kept -= len(self._chunks.popleft())

    def _readable(self, line: bytes) -> str:
        text = plain_line(line)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


class Follower:
    def __init__(self) -> None:
        self._unread = bytearray()
        self._news = asyncio.Event()
        self._missed = False

    def offer(self, chunk: bytes) -> None:
        if len(self._unread) + len(chunk) > BEHIND:
            self._unread.clear()
            self._missed = True
        self._unread += chunk[-BEHIND:]
        self._news.set()

    async def lines(self) -> list[bytes]:
        """The complete lines so far; waits for the first."""
        while b"\n" not in self._unread:
            self._news.clear()
            await self._news.wait()
        complete, _, rest = self._unread.rpartition(b"\n")
        self._unread = rest
        lines = bytes(complete).split(b"\n")
        if self._missed:
            self._missed = False
            lines[0] = SKIPPED.encode()  # the first line is incomplete
        return lines


class Outputs:
    def __init__(self, stdout_copy: Callable[[ModelName, bytes], None] | None = None) -> None:
        self._stdout_copy = stdout_copy
        self._outputs: dict[ModelName, Output] = {}

    def of(self, model: ModelName) -> Output:
        if model not in self._outputs:
            self._outputs[model] = Output(partial(self._stdout_copy, model) if self._stdout_copy else None)
        return self._outputs[model]


class Pipe:
    """From a process to an Output; read from its creation on."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        with contextlib.suppress(OSError, AttributeError):  # Linux only, up to the user's limit
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, READ_SIZE)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        """The pipe is not read until it fires."""
        self._listen()

    def close(self) -> None:
        """Read what was written so far and close. Safe to call twice."""
        if self._read_end < 0:
            return
        while self._read():
            pass
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
