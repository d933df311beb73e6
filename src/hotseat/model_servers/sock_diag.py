"""The TCP sockets that listen, asked of Linux through netlink (sock_diag), which looks at no other.

The same can be read in /proc/net/tcp, but there the kernel walks all connections: milliseconds where there are none
and tens of them where there are thousands, and meanwhile nobody is served.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
DUMP, ERROR, DONE = 0x301, 2, 3  # request, root and match; the two ends an answer may have
LISTENING = 1 << 10
"""The set of states that holds only this one."""
HEAD = struct.Struct("=IHHII")
QUESTION = struct.Struct("=BBxxI48x")
"""Family, protocol, states, and no socket in particular."""
ANSWER = struct.Struct("=4x2s2x16s44xI")
"""Port and address in network order, inode."""
ROOM = 1 << 16


class Listener(NamedTuple):
    port: int
    address: bytes
    """4 bytes or 16, as the family has them."""
    inode: int


def listening(family: socket.AddressFamily) -> list[Listener]:
    """All of this family in our network; OSError where the kernel does not say."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("there is no netlink here")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        question = QUESTION.pack(family, socket.IPPROTO_TCP, LISTENING)
        kernel.sendto(HEAD.pack(HEAD.size + len(question), SOCK_DIAG_BY_FAMILY, DUMP, 0, 0) + question, (0, 0))
        width = 4 if family == socket.AF_INET else 16
        return [told(answer, width) for answer in answers(kernel)]


def answers(kernel: socket.socket) -> Iterator[bytes]:
    """Messages as they come, several at a time, until the kernel says that it has done."""
    while True:
        received = kernel.recv(ROOM)
        while received:
            length, kind, *_ = HEAD.unpack_from(received)
            if kind == DONE:
                return
            if kind == ERROR:
                number = -struct.unpack_from("=i", received, HEAD.size)[0]
                raise OSError(number, os.strerror(number))
            yield received[HEAD.size : length]
            received = received[(length + 3) & ~3 :]


def told(answer: bytes, width: int) -> Listener:
    port, address, inode = ANSWER.unpack_from(answer)
    return Listener(int.from_bytes(port, "big"), address[:width], inode)
