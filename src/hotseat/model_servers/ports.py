"""Lends local ports and takes them back. A port is held by a bound socket until the server that gets it is started."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
LAST = 65_535


class Loan:
    """A port that nobody else is lent until it is given back."""

    def __init__(self, ports: Ports, held: socket.socket) -> None:
        self._ports, self._held = ports, held
        self.port: int = held.getsockname()[1]

    def vacate(self) -> None:
        """Let go of the socket, just before the server takes its place."""
        self._held.close()

    def give_back(self) -> None:
        self._held.close()
        self._ports.take_back(self.port)


class Ports:
    def __init__(self) -> None:
        self._lent: set[int] = set()

    def lend(self, preferred: int | None = None) -> Loan:
        """A free port of the kernel's choice, or the first free one from `preferred` on; OSError when there is none."""
        for held in free_from(preferred) if preferred else free():
            loan = Loan(self, held)
            if loan.port not in self._lent:
                self._lent.add(loan.port)
                return loan
            loan.vacate()
        raise OSError(f"no free port at or above {preferred}")

    def take_back(self, port: int) -> None:
        self._lent.discard(port)


def free() -> Iterator[socket.socket]:
    while True:
        yield bound(0)


def free_from(first: int) -> Iterator[socket.socket]:
    for port in range(first, LAST + 1):
        try:
            held = bound(port)
        except OSError:
            continue
        yield held


def is_taken(port: int) -> bool:
    """Does somebody hold it?"""
    try:
        bound(port).close()
    except OSError:
        return True
    return False


def bound(port: int) -> socket.socket:
    held = socket.socket()
    try:
        if port:
            # Connections of the last server on this port linger for a minute and must not keep the next one away.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        raise
    return held
