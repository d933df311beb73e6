"""The sockets that clients connect to, and their TLS certificate."""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.settings import TlsFiles

    LookUp = Callable[..., Iterable[tuple[int, int, int, str, Any]]]

NOT_OF_THIS_MACHINE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Errors of bind where the hosts file maps `localhost` to ::1 and IPv6 is off."""


BACKLOG = 4096


def bound(listen: tuple[str, int], look_up: LookUp = socket.getaddrinfo) -> list[socket.socket]:
    """Sockets that listen at every address of a name (`localhost` may have two), so that connections wait until they
    are accepted. OSError if an address is in use or none is local."""
    host, port = listen
    found = look_up(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    absent: OSError | None = None
    with ExitStack() as unless_all_bind:
        sockets = []
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                sockets.append(unless_all_bind.enter_context(bound_socket(family, address)))
            except OSError as problem:
                if problem.errno not in NOT_OF_THIS_MACHINE:
                    raise
                absent = problem
        if absent and not sockets:
            raise absent
        unless_all_bind.pop_all()
    return sockets


def bound_socket(family: int, address: Any) -> socket.socket:
    # asyncio sets TCP_NODELAY only if the protocol is given; uvloop always does.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)  # at once: until then another program may still take the port
    except OSError:
        sock.close()
        raise
    return sock


def tls_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    if files is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(*files)
    return context
