"""Leases local ports. A port is reserved by a bound socket until its server is started."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOPBACK = "127.0.0.1"
LAST = 65_535


class PortLease:
    """A port that is not leased again until it is released."""

    def __init__(self, ports: Ports, port: int, held: socket.socket | None = None) -> None:
        self._ports, self.port, self._held = ports, port, held

    def vacate(self) -> None:
        """Close the socket, just before the server binds the port."""
        if self._held:
            self._held.close()

    def release(self) -> None:
        self.vacate()
        self._ports.release(self.port)


class Ports:
    def __init__(self, fixed: Callable[[], frozenset[int]] = frozenset) -> None:
        """`fixed` returns the ports of servers that choose them themselves: they are never leased."""
        self._leased: set[int] = set()
        self._fixed = fixed

    def lease(self, preferred: int | None = None) -> PortLease:
        """A free port chosen by the kernel, or the first free one from `preferred` on; OSError if there is none."""
        for held in free_from(preferred) if preferred else free():
            lease = PortLease(self, held.getsockname()[1], held)
            if lease.port not in self._leased | self._fixed():
                self._leased.add(lease.port)
                return lease
            lease.vacate()
        raise OSError(f"no free port at or above {preferred}")

    def lease_to_running(self, port: int) -> PortLease:
        """For a server that was handed over, and has the port already."""
        self._leased.add(port)
        return PortLease(self, port)

    def release(self, port: int) -> None:
        self._leased.discard(port)


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
    try:
        bound(port).close()
    except OSError:
        return True
    return False


def bound(port: int) -> socket.socket:
    held = socket.socket()
    try:
        if port:
            # Connections of the last server stay in TIME_WAIT for a minute and must not block the next one.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((LOOPBACK, port))
    except OSError:
        held.close()
        raise
    return held
