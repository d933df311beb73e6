"""What the kernel knows about a connection that ended: was the request delivered, and was the server exiting?"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

BYTES_ACKED = 120
"""Offset of `tcpi_bytes_acked` in Linux's struct tcp_info."""
PF_EXITING = 0x4
"""A bit of the ninth field of /proc/PID/stat."""


def is_untaken(sock: socket.socket, earlier: Bytes, problem: Exception | None) -> bool:
    """True only if it is certain that nothing beyond the first `earlier` bytes reached the other side.

    A server that closes an idle connection just as we use it answers our bytes with a reset, and its kernel never
    acknowledges them. A server that read the request and then died has acknowledged it: nobody knows how far it got.
    """
    if sock.family == socket.AF_UNIX:
        return isinstance(problem, BrokenPipeError)
    if problem is not None:
        return False  # a reset may overtake the acknowledgement of what was read
    return (acknowledged := bytes_acknowledged(sock)) is not None and acknowledged <= earlier


def bytes_acknowledged(sock: socket.socket) -> Bytes | None:
    """None if the system does not report it."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED + 8)
        return int(struct.unpack_from("Q", info, BYTES_ACKED)[0]) - 1  # the SYN counts as an acknowledged byte
    except (OSError, AttributeError, struct.error):
        return None


def is_dying(pid: int) -> bool:
    """Is this process exiting, or gone? False also if the system does not report it.

    A response that ends with its connection looks complete even if its server was killed. Linux marks a process as
    exiting before it closes its files, so whoever sees the end of the connection can see that mark.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, *fields = stat.read().rpartition(b")")[2].split()  # a name may contain spaces and brackets
    except FileNotFoundError:
        return os.path.exists("/proc/self/stat")
    except ProcessLookupError:  # it exited while we looked
        return True
    except OSError:  # no file descriptor is left
        return False
    return state in (b"Z", b"X") or bool(int(fields[5]) & PF_EXITING)
