"""One end of a connection: plain bytes, plain sockets, and a deadline on everything."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    T = TypeVar("T")

DEADLINE_S = 15.0
TICKS, TICK_S = 100, 0.01
"""A second, in which promised things happen promptly; it usually takes milliseconds."""

Fields = list[tuple[str, str]]


class End(Enum):
    CLOSED = "closed"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response: its first line, its header fields, its body without framing."""

    first_line: str
    fields: Fields
    body: bytes
    raw: bytes
    """All bytes as on the wire."""

    @property
    def status(self) -> int:
        return int(self.first_line.split(" ")[1])

    @property
    def names(self) -> list[str]:
        return [name.lower() for name, _ in self.fields]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def __getitem__(self, name: str) -> str:
        (value,) = self.all(name)
        return value


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family == socket.AF_INET:  # what a test sends in two pieces arrives in two
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.unread = b""
        self._operations = 0
        """Reads and writes whose tasks have not ended; until then a loop may watch the socket."""
        self._is_left = False

    # Writing

    async def send(self, data: bytes) -> None:
        await self._run(asyncio.get_running_loop().sock_sendall(self.sock, data))

    def say_goodbye(self) -> None:
        """Send a FIN: nothing more will be sent, but data can still be received."""
        self.sock.shutdown(socket.SHUT_WR)

    def hang_up(self) -> None:
        """Close the socket; one that is in use is only shut down, and its last operation closes it.

        Otherwise the next socket gets its number while a loop still watches that number for this one, and hangs.
        """
        self._is_left = True
        if not self._operations:
            self.sock.close()
        else:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        assert not self._operations, "end the task that uses this socket first"
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # Reading

    @property
    def is_spoken_to(self) -> bool:
        """Whether data has arrived that nobody has read; it stays unread."""
        with suppress(BlockingIOError):
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        return False

    async def read_until(self, mark: bytes) -> bytes:
        while mark not in self.unread:
            await self._read_more()
        end = self.unread.index(mark) + len(mark)
        return self._take(end)

    async def read_exactly(self, size: int) -> bytes:
        while len(self.unread) < size:
            await self._read_more()
        return self._take(size)

    async def has_more(self) -> bool:
        """Wait without a deadline for data, or for the end."""
        self.unread += await self._receive(None)
        return bool(self.unread)

    async def read_to_end(self) -> bytes:
        """Everything up to a clean end; a reset raises."""
        while data := await self._receive():
            self.unread += data
        return self._take(len(self.unread))

    async def end(self, by: float = DEADLINE_S) -> End:
        """How the peer ended the connection; what it sent before stays unread."""
        try:
            while data := await within(by, self._receive()):
                self.unread += data
        except (ConnectionResetError, BrokenPipeError):
            return End.RESET
        return End.CLOSED

    async def message(self, *, to: str = "GET") -> Message:
        """The next request, or the next response to a request of the method `to`, read by its own framing."""
        head = await self.read_until(b"\r\n\r\n")
        first_line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        fields = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        by_name = {name.lower(): value for name, value in fields}
        body, raw = await self._body(first_line, by_name, to)
        return Message(first_line, fields, body, head + raw)

    async def _body(self, first_line: str, by_name: dict[str, str], to: str) -> tuple[bytes, bytes]:
        is_answer = first_line.startswith("HTTP/")
        if is_answer and (to == "HEAD" or first_line.split(" ")[1] in ("100", "103", "204", "304")):
            return b"", b""
        if by_name.get("transfer-encoding") == "chunked":
            return await self._chunks()
        if "content-length" in by_name:
            body = await self.read_exactly(int(by_name["content-length"]))
            return body, body
        body = await self.read_to_end() if is_answer else b""
        return body, body

    async def _chunks(self) -> tuple[bytes, bytes]:
        body = raw = b""
        while True:
            line = await self.read_until(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if not size:
                return body, raw + line + await self._trailers()
            chunk = await self.read_exactly(size + 2)
            body, raw = body + chunk[:-2], raw + line + chunk

    async def _trailers(self) -> bytes:
        trailers = b""
        while (line := await self.read_until(b"\r\n")) != b"\r\n":
            trailers += line
        return trailers + line

    async def _read_more(self) -> None:
        data = await self._receive()
        if not data:
            raise AssertionError(f"the connection ended after {self.unread[-500:]!r}")
        self.unread += data

    async def _receive(self, by: float | None = DEADLINE_S) -> bytes:
        if self._is_left and self.sock.fileno() < 0:  # the operation that read the end has closed it
            return b""
        return await self._run(asyncio.get_running_loop().sock_recv(self.sock, 1 << 20), by)

    async def _run(self, operation: Awaitable[T], by: float | None = DEADLINE_S) -> T:
        self._operations += 1
        try:
            return await within(by, operation)
        finally:
            self._operations -= 1
            if self._is_left and not self._operations:
                self.sock.close()

    def _take(self, size: int) -> bytes:
        taken, self.unread = self.unread[:size], self.unread[size:]
        return taken


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work


async def promptly(work: Awaitable[T]) -> T:
    """Fails after a second in which this process ran: while a busy machine lets it wait, nothing can happen in it."""

    async def result() -> T:
        return await work

    waiting = asyncio.get_running_loop().create_task(result())
    try:
        for _ in range(TICKS):
            done, _ = await asyncio.wait([waiting], timeout=TICK_S)
            if done:
                return waiting.result()
        raise TimeoutError(f"not within {TICKS * TICK_S:g} s")
    finally:
        waiting.cancel()
