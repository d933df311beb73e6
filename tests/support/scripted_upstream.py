"""A server controlled by the test: it records requests and answers only when told to."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.transport import DEADLINE_S, End, Wire, promptly, within

from hotseat.identifiers import Address
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.transport import Message


class Line:
    """One connection to the server; it is always being read, so that its end is noticed at once."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.over: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self.reader: asyncio.Task[None]

    async def ended(self) -> End:
        return await promptly(asyncio.shield(self.over))

    async def ended_later(self) -> End:
        """Ended by a sweep over all connections."""
        return await within(DEADLINE_S, asyncio.shield(self.over))

    async def reset(self) -> None:
        await self._stop_reading()
        self.wire.reset()

    async def close(self) -> None:
        """As a server closes an idle connection: the kernel answers what still arrives."""
        await self._stop_reading()
        self.wire.hang_up()

    async def _stop_reading(self) -> None:
        self.reader.cancel()
        await asyncio.wait([self.reader])


@dataclass(frozen=True, slots=True)
class Call:
    """One request and its connection."""

    request: Message
    line: Line

    async def say(self, data: bytes) -> None:
        await self.line.wire.send(data)

    def hang_up(self) -> None:
        """The reader sees the end, because the socket is only shut down as long as somebody reads from it."""
        self.line.wire.hang_up()

    async def ended(self) -> End:
        return await self.line.ended()


class ScriptedUpstream:
    def __init__(self, sock: socket.socket, address: Address) -> None:
        self.address = address
        self.lines: list[Line] = []
        self.requests = 0
        self.listens = asyncio.Event()
        """Cleared: what is sent stays in the kernel's buffers."""
        self.listens.set()
        self._sock = sock
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self._tasks = Tasks()
        self._acceptor = self._tasks.start(self._accept(), "accept")
        self._blockers: list[socket.socket] = []

    async def call(self) -> Call:
        """The next request, on any connection."""
        return await within(DEADLINE_S, self._calls.get())

    async def refuse_connections(self) -> None:
        """Existing connections continue."""
        self._acceptor.cancel()
        await asyncio.wait([self._acceptor])  # a loop that still accepts keeps the socket open
        self._sock.close()

    def stop_accepting(self) -> None:
        """From now on connecting never completes: the kernel's backlog is full."""
        self._acceptor.cancel()
        self._sock.listen(0)
        blocker = socket.socket()
        blocker.setblocking(False)
        blocker.connect_ex((self.address.host, self.address.port))
        self._blockers.append(blocker)

    async def aclose(self) -> None:
        await self._tasks.aclose()
        self._sock.close()
        for line in self.lines:
            line.wire.hang_up()
        for sock in self._blockers:
            sock.close()

    async def _accept(self) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
            line = Line(Wire(sock))
            self.lines.append(line)
            line.reader = self._tasks.start(self._attend(line), "line")

    async def _attend(self, line: Line) -> None:
        with suppress(AssertionError, OSError):
            while await self._has_more(line):
                request = await line.wire.message()
                self.requests += 1
                self._calls.put_nowait(Call(request, line))
        line.over.set_result(await line.wire.end())

    async def _has_more(self, line: Line) -> bool:
        await self.listens.wait()
        return await line.wire.has_more()


def on_a_port() -> ScriptedUpstream:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return ScriptedUpstream(sock, Address("127.0.0.1", sock.getsockname()[1]))


def on_a_path(path: Path) -> ScriptedUpstream:
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(path))
    sock.listen()
    sock.setblocking(False)
    return ScriptedUpstream(sock, Address("localhost", 0, unix_path=str(path)))
