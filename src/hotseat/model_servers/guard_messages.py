"""Messages between hotseat and its guard: lines of JSON over a unix socket; some of them carry file descriptors.

Both sides use this, so it imports the standard library only. Nothing here waits: a side that does not read must not
stop the other. hotseat judges every message that it sends by `is_unread` or by its answer (guard_link.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import termios
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION = 1
"""Of the protocol. Unknown fields and messages are ignored on both sides, so most changes need no new one."""
MOST_FDS = 253
"""What the kernel passes with one message (SCM_MAX_FD)."""
READ_SIZE, MOST_READS = 1 << 16, 64
"""A side that never stops sending must not keep the other from everything else."""


class Message(NamedTuple):
    content: dict[str, Any]
    fds: list[int]

    def close_fds(self) -> None:
        """For whoever does not want them."""
        close_each(self.fds)


class Messages:
    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._unread = b""
        self._received_fds: list[int] = []
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self.is_over = False
        """The other side is gone, or what it sends is no message: no more will come."""

    def fileno(self) -> int:
        """-1: it is closed."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def is_unread(self) -> bool:
        """The other side has not read all that it was sent; where the system does not say, only what has not left."""
        with contextlib.suppress(OSError):
            return self.has_unsent or any(fcntl.ioctl(self._socket, termios.TIOCOUTQ, bytes(4)))
        return False

    def send(self, content: Mapping[str, Any], fds: Iterable[int] = ()) -> None:
        """Send it now, or with a later `flush`; the descriptors are closed then."""
        fds = tuple(fds)
        line = json.dumps({**content, "fds": len(fds)} if fds else content).encode() + b"\n"
        self._unsent.append((line, fds))
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes."""
        try:
            while self._unsent:
                self._send_some(*self._unsent[0])
        except BlockingIOError:
            return
        except OSError:  # the other side is gone: the next read will show it
            self._discard_unsent()

    def _send_some(self, data: bytes, fds: tuple[int, ...]) -> None:
        sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
        self._unsent.popleft()
        close_each(fds)
        if sent < len(data):
            self._unsent.appendleft((data[sent:], ()))

    def receive(self) -> list[Message]:
        """The complete messages that have arrived, also those before the end; not all of a very long one at once."""
        messages: list[Message] = []
        try:
            for _ in range(MOST_READS):
                messages += [] if self.is_over else self._read()
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self.is_over = True
        return messages

    def _read(self) -> list[Message]:
        received, fds, flags, _ = socket.recv_fds(self._socket, READ_SIZE, MOST_FDS)
        for fd in fds:
            os.set_inheritable(fd, False)
        self._received_fds += fds
        if flags & socket.MSG_CTRUNC:
            raise OSError("some descriptors did not fit into this process")
        self.is_over = not received
        *lines, self._unread = (self._unread + received).split(b"\n")
        return [self._message(line) for line in lines]

    def _message(self, line: bytes) -> Message:
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError("not a message")
        count = int(content.get("fds", 0))
        fds, self._received_fds = self._received_fds[:count], self._received_fds[count:]
        return Message(content, fds)

    def close(self) -> None:
        """What is not sent yet is lost. Safe to call twice."""
        self._socket.close()
        self._discard_unsent()
        close_each(self._received_fds)
        self._received_fds.clear()

    def _discard_unsent(self) -> None:
        for _, fds in self._unsent:
            close_each(fds)
        self._unsent.clear()


def close_each(fds: Iterable[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
