"""The systemd protocols: readiness, watchdog and socket activation.

Both use a few environment variables and datagrams. The variables are removed from the environment, because they are not
for model servers.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from hotseat.identifiers import Seconds

FIRST_FD = 3
LISTENS_WITHIN_S: Seconds = 0.1
"""If systemd does not read in time, serving must not be delayed."""


class Systemd:
    """Does nothing if systemd does not listen."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        self._watchdog_s: Seconds = int(environ.pop("WATCHDOG_USEC", "") or 0) / 1e6
        environ.pop("WATCHDOG_PID", None)

    def environment(self) -> dict[str, str]:
        """For the process that replaces this one."""
        watchdog = {"WATCHDOG_USEC": str(int(self._watchdog_s * 1e6))} if self._watchdog_s else {}
        return {"NOTIFY_SOCKET": self._address, **watchdog} if self._address else {}

    @property
    def is_there(self) -> bool:
        return bool(self._address)

    def notify(self, *facts: str) -> None:
        if not self._address:
            return
        name = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(LISTENS_WITHIN_S)
            sender.sendto("\n".join(facts).encode(), name)

    def follow(self, pid: int) -> None:
        """That process serves from now on, and systemd reads its messages only."""
        self.notify(f"MAINPID={pid}", "WATCHDOG=1")
        self._watchdog_s = 0

    async def pet_watchdog(self) -> None:
        """Notify twice per period that the event loop runs; returns at once if there is no watchdog."""
        while self._watchdog_s:
            self.notify("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)


def handed_sockets(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """The listening sockets passed by systemd; ValueError if one is not a TCP socket."""
    pid, number, _ = (environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    count = int(number) if pid == str(os.getpid()) and number else 0
    sockets = [socket.socket(fileno=fd) for fd in range(FIRST_FD, FIRST_FD + count)]
    for sock in sockets:
        sock.set_inheritable(False)
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            raise ValueError(
                f"{sock.getsockname()!r} was passed by systemd but is not a TCP socket; correct ListenStream="
            )
    return sockets


def most_exposed(sockets: list[socket.socket]) -> tuple[str, int]:
    """The address that decides who can reach hotseat."""
    addresses = [(str(host), int(port)) for host, port, *_ in (sock.getsockname() for sock in sockets)]
    return next((each for each in addresses if each[0] not in ("127.0.0.1", "::1")), addresses[0])
