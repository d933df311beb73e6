"""Lists listening TCP sockets through Linux netlink (sock_diag), which examines no others.

/proc/net/tcp has the same data, but there the kernel walks all connections: milliseconds if there are none and tens of
them if there are thousands, and no request is served meanwhile.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
DUMP, ERROR, DONE = 0x301, 2, 3  # request, root and match; the two ends of an answer
LISTENING = 1 << 10
"""A bit set of TCP states with only this one."""
HEAD = struct.Struct("=IHHII")
QUESTION = struct.Struct("=BBxxI48x")
"""Family, protocol, states, and no particular socket."""
ANSWER = struct.Struct("=4x2s2x16s44xI")
"""Port and address in network order, inode."""
BUFFER = 1 << 16


class Listener(NamedTuple):
    port: int
    address: bytes
    """4 or 16 bytes, depending on the family."""
    inode: int


def listening(family: socket.AddressFamily) -> list[Listener]:
    """All of this family in this network namespace; OSError if the kernel does not say."""
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError("there is no netlink here")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        question = QUESTION.pack(family, socket.IPPROTO_TCP, LISTENING)
        kernel.sendto(HEAD.pack(HEAD.size + len(question), SOCK_DIAG_BY_FAMILY, DUMP, 0, 0) + question, (0, 0))
        width = 4 if family == socket.AF_INET else 16
        return [listener_in(answer, width) for answer in answers(kernel)]


def answers(kernel: socket.socket) -> Iterator[bytes]:
    """Messages as they arrive, several at a time, until the kernel sends DONE."""
    while True:
        received = kernel.recv(BUFFER)
        while received:
            length, kind, *_ = HEAD.unpack_from(received)
            if kind == DONE:
                return
            if kind == ERROR:
                number = -struct.unpack_from("=i", received, HEAD.size)[0]
                raise OSError(number, os.strerror(number))
            yield received[HEAD.size : length]
            received = received[(length + 3) & ~3 :]


def listener_in(answer: bytes, width: int) -> Listener:
    port, address, inode = ANSWER.unpack_from(answer)
    return Listener(int.from_bytes(port, "big"), address[:width], inode)
