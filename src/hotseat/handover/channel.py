"""Messages between the old and the new process, over a private socket pair, in the form of those to the guard."""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING, Any, NamedTuple

from hotseat.model_servers.guard_messages import Messages

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from hotseat.identifiers import Seconds
    from hotseat.model_servers import guard_messages


class Message(NamedTuple):
    kind: str
    facts: dict[str, Any]
    fds: tuple[int, ...] = ()


class Closed(Exception):
    """The other process has closed its end, or has ended."""


class Channel:
    """One end of the socket pair. Whoever receives a message owns its descriptors."""

    def __init__(self, sock: socket.socket) -> None:
        self._messages = Messages(sock)
        self._loop = asyncio.get_running_loop()
        self._received: asyncio.Queue[Message | None] = asyncio.Queue()
        self._loop.add_reader(sock, self._receive)
        self._socket = sock
        self.is_closed = False

    def send(self, kind: str, /, *fds: int, **facts: Any) -> None:
        """The receiver gets copies of the descriptors."""
        if not self.is_closed:
            self._messages.send(content(kind, facts), map(os.dup, fds))
            self._send_rest()

    async def receive(self) -> Message:
        """Raises Closed after the last message."""
        message = await self._received.get()
        if message is None:
            self._received.put_nowait(None)
            raise Closed
        return message

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._messages.close()
        self._received.put_nowait(None)

    def _receive(self) -> None:
        for message in self._messages.receive():
            self._received.put_nowait(read(message))
        if self._messages.is_over:
            self.close()

    def _send_rest(self) -> None:
        self._messages.flush()
        if self._messages.has_unsent:
            self._loop.add_writer(self._socket, self._send_rest)
        else:
            self._loop.remove_writer(self._socket)


def content(kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """With the number of descriptors even if it is 0: the first programs with this protocol read no other messages."""
    return {"kind": kind, "fds": 0, **facts}


def read(message: guard_messages.Message) -> Message:
    facts = {name: value for name, value in message.content.items() if name not in ("kind", "fds")}
    return Message(str(message.content.get("kind")), facts, tuple(message.fds))


def receive_first(sock: socket.socket, within: Seconds) -> Message:
    """The first message, before an event loop runs; OSError if there is none in time."""
    messages = Messages(sock)
    while not messages.is_over and select.select([sock], [], [], within)[0]:
        if found := messages.receive():
            return read(found[0])
    raise ConnectionResetError("the old process has ended, or says nothing")
