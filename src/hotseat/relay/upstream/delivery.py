"""Detects whether the upstream received what we sent on a closed connection: if not, it may be sent again.

A server that closes an idle connection just as we use it answers our bytes with a reset, and its kernel never
acknowledges them. A server that read the request and then died has acknowledged it: nobody knows how far it got.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotseat.identifiers import Bytes

BYTES_ACKED = 120
"""Offset of `tcpi_bytes_acked` in Linux's struct tcp_info."""
SYN = 1
"""The opener's SYN counts as one acknowledged byte."""


def is_untaken(sock: socket.socket, earlier: Bytes, problem: Exception | None) -> bool:
    """True only if it is certain that nothing beyond the first `earlier` bytes reached the other side."""
    if sock.family == socket.AF_UNIX:
        return isinstance(problem, BrokenPipeError)
    if problem is not None:
        return False  # a reset may overtake the acknowledgement of what was read
    acknowledged = bytes_acknowledged(sock)
    return acknowledged is not None and acknowledged <= earlier


def bytes_acknowledged(sock: socket.socket) -> Bytes | None:
    """None if the system does not report it."""
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_ACKED + 8)
        return int(struct.unpack_from("Q", info, BYTES_ACKED)[0]) - SYN
    except (OSError, AttributeError, struct.error):
        return None
