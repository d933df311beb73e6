"""The new process's side of a restart: gets the sockets and the servers from the old process."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.handover.channel import Channel, content, receive_first
from hotseat.handover.stand_in import HANDOVER
from hotseat.model_servers.guard_messages import Messages, close_each

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from hotseat.identifiers import Seconds


VERSION = 1
HELLO_S: Seconds = 10.0


class Predecessor:
    """The old process, which goes on serving until this one has taken over."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._hello = receive_first(sock, HELLO_S)
        if (version := self._hello.facts["version"]) != VERSION:
            reason = f"the running hotseat hands over in format {version}, and this one reads format {VERSION}"
            self.cannot_start(reason)
            raise ValueError(reason)

    @property
    def first(self) -> tuple[int, int | None] | None:
        """Pid and start time of the process that this one ends with; None: there is none."""
        return self._hello.facts.get("first") and tuple(self._hello.facts["first"])

    def sockets_of_systemd(self) -> list[socket.socket]:
        """Those that systemd has opened are used whatever the configuration says."""
        fds = self._hello.fds[: self._hello.facts["sockets"]]
        return used(fds, is_used=True) if self._hello.facts["by_systemd"] else []

    def sockets_for(self, listen: tuple[str, int]) -> list[socket.socket]:
        """Those that were opened for this address; none if the configuration has changed."""
        fds = self._hello.fds[: self._hello.facts["sockets"]]
        return used(fds, is_used=tuple(self._hello.facts["listen"]) == listen)

    def sockets_for_ollama(self, listen: tuple[str, int] | None) -> list[socket.socket]:
        """Those for Ollama's clients that were opened for this address."""
        fds = self._hello.fds[self._hello.facts["sockets"] :]
        return used(fds, is_used=listen is not None and self._hello.facts["ollama_listen"] == list(listen))

    def cannot_start(self, reason: str) -> None:
        """Tell the old process why it must go on alone."""
        with suppress(OSError):
            Messages(self._socket).send(content("failed", {"reason": reason}))

    def channel(self) -> Channel:
        return Channel(self._socket)


def used(fds: Sequence[int], *, is_used: bool) -> list[socket.socket]:
    """Those that are not used are closed: otherwise the kernel would go on to accept connections for nobody."""
    if not is_used:
        close_each(fds)
        return []
    return [socket.socket(fileno=fd) for fd in fds]


def predecessor_in(environ: MutableMapping[str, str]) -> Predecessor | None:
    """The process that started this one in order to be replaced; None: this is an ordinary start."""
    number = environ.pop(HANDOVER, "")
    return Predecessor(socket.socket(fileno=int(number))) if number else None
