"""The guard's copy of the read end of a process's output: the pipe survives hotseat, and the next hotseat reads on.

Used by the guard: standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios

USUAL_CAPACITY = 64 << 10
"""Where the system does not say."""
PART = 4
"""A pipe counts as full with a quarter of its bytes unread: pieces of half a page fill it with half of them."""


class OutputPipe:
    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        os.set_blocking(read_end, False)

    def copy(self) -> int:
        """A descriptor for the next owner; OSError if there are too many."""
        return os.dup(self._read_end)

    def close(self) -> None:
        os.close(self._read_end)

    def drain(self) -> None:
        """Drop the oldest output if nobody reads it, so that no server waits; the newest stays for the next owner."""
        with contextlib.suppress(OSError):
            if (surplus := self._unread() - self._capacity() // PART) > 0:
                os.read(self._read_end, surplus)

    def _unread(self) -> int:
        (unread,) = struct.unpack("i", fcntl.ioctl(self._read_end, termios.FIONREAD, bytes(4)))
        return int(unread)

    def _capacity(self) -> int:
        try:
            return fcntl.fcntl(self._read_end, fcntl.F_GETPIPE_SZ)
        except AttributeError:  # macOS
            return USUAL_CAPACITY
