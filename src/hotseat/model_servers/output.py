"""What the servers write: the last of it kept per model, followed live, and never in anybody's way.

Bytes are taken from the pipe in big pieces, some times a second, and cut into lines only when somebody reads: a server
that babbles costs little and is never kept waiting.
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
"""How far a follower may fall behind before it misses something."""

READ_SIZE = 256 << 10
SMALL = 4 << 10
GATHER_S: Seconds = 0.05
"""llama-server writes a line in five pieces and fifteen lines for a request: to wake up for each cost more than the
request did."""
BABBLE = 16 << 10
"""Who writes so much at once is listened to without a pause, lest the pipe fill and the writer wait."""
SKIPPED = "(some output was skipped here)"


class Output:
    """The last 256 KiB that the launches of one model wrote."""

    def __init__(self, echo: Callable[[bytes], None] | None = None) -> None:
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self._followers: list[Follower] = []
        self._secrets: tuple[str, ...] = ()
        self._echo = echo
        self._half_line = b""
        """Not echoed yet, where there are secrets: one of them may be in the middle of coming."""
        self._is_amid_line = False
        self.written = 0
        """Bytes ever written: a place in the output, for `since`."""

    def feed(self, chunk: bytes) -> None:
        self._keep(chunk)
        for follower in self._followers:
            follower.offer(chunk)
        self._copy(chunk)

    def end_line(self) -> None:
        """Who wrote has ended: what is copied line by line waits no longer for the end of its last line."""
        if self._is_amid_line:
            self._copy(b"\n")

    def conceal(self, secrets: Iterable[str]) -> None:
        """Never show these words to a reader: some servers print their own command line."""
        self._secrets = tuple(secrets)

    def _copy(self, chunk: bytes) -> None:
        if self._echo:
            self._echo(self._veiled(chunk) if self._secrets else chunk)
            self._is_amid_line = not chunk.endswith(b"\n")

    def _veiled(self, chunk: bytes) -> bytes:
        """Whole lines without the secrets in them; the rest comes with its line's end, or when it is long."""
        text = self._half_line + chunk
        end = text.rfind(b"\n") + 1 if len(text) - text.rfind(b"\n") <= SMALL else len(text)
        whole, self._half_line = text[:end], text[end:]
        for secret in self._secrets:
            whole = whole.replace(secret.encode(), b"***")
        return whole

    def tail(self, lines: int = 20, since: int = 0) -> list[str]:
        """The last lines, as plain text; with `since`, only what was written after that place."""
        kept = b"".join(self._chunks)
        fresh = kept[max(0, since - self.written + len(kept)) :].rstrip(b"\r\n")
        return [self._readable(line) for line in fresh.rsplit(b"\n", lines)[-lines:]] if fresh and lines > 0 else []

    async def follow(self) -> AsyncGenerator[str, None]:
        """New lines as they are written. Who reads too slowly misses some and is told so."""
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
        """The lines that are complete by now; waits for the first."""
        while b"\n" not in self._unread:
            self._news.clear()
            await self._news.wait()
        complete, _, rest = self._unread.rpartition(b"\n")
        self._unread = rest
        lines = bytes(complete).split(b"\n")
        if self._missed:
            self._missed = False
            lines[0] = SKIPPED.encode()  # the first is torn
        return lines


class Outputs:
    def __init__(self, echo: Callable[[ModelName, bytes], None] | None = None) -> None:
        self._echo = echo
        self._outputs: dict[ModelName, Output] = {}

    def of(self, model: ModelName) -> Output:
        if model not in self._outputs:
            self._outputs[model] = Output(partial(self._echo, model) if self._echo else None)
        return self._outputs[model]


class Pipe:
    """The way from a process to an Output, drained from the moment it is made."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        with contextlib.suppress(OSError, AttributeError):  # Linux only, and only as far as the user may
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, READ_SIZE)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        """Until its end the pipe fills unseen."""
        self._listen()

    def close(self) -> None:
        """Take what was written so far and let go. Safe to call twice."""
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
        """What there is; empty at the end, None when nothing has come yet."""
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
