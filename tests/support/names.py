"""Host names with several addresses of this machine, and listeners that accept or hang."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.ports import free_port

from hotseat.net.happy_eyeballs import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST, SECOND = "127.0.0.2", "127.0.0.1"


async def two(host: str, port: int) -> list[Place]:
    """A resolver that returns both addresses for every name, in this order."""
    return [Place(socket.AF_INET, (FIRST, port)), Place(socket.AF_INET, (SECOND, port))]


@contextmanager
def listener(host: str, port: int = 0) -> Iterator[socket.socket]:
    with socket.create_server((host, port or free_port())) as sock:
        sock.setblocking(False)
        yield sock


@contextmanager
def black_hole(host: str, port: int = 0) -> Iterator[int]:
    """A port on which connecting never completes, because the kernel's backlog is full."""
    with socket.create_server((host, port or free_port()), backlog=0) as sock, socket.socket() as blocker:
        blocker.setblocking(False)
        blocker.connect_ex(sock.getsockname())
        yield sock.getsockname()[1]


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def has_caller(sock: socket.socket) -> bool:
    """Accepts the next connection, if there is one."""
    try:
        sock.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def addresses_of(*hosts: str) -> Callable[..., list[Any]]:
    """A resolver that returns these addresses for every name."""

    def look_up(_: str, *rest: Any, **known: Any) -> list[Any]:
        return [found for host in hosts for found in socket.getaddrinfo(host, *rest, **known)]

    return look_up
