"""Detects a dying server: a response that ends with its connection looks complete even if its server was killed.

Linux marks a process as exiting before it closes its files, so whoever sees the end of the connection can see that
mark, or that the process is gone.
"""

from __future__ import annotations

PF_EXITING = 0x4
"""A bit of the ninth field of /proc/PID/stat."""


def is_dying(pid: int) -> bool:
    """False also if the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, *fields = stat.read().rpartition(b")")[2].split()  # a name may contain spaces and brackets
    except FileNotFoundError:
        return _tells_of_processes()
    except ProcessLookupError:  # it exited while we looked
        return True
    except OSError:  # no file descriptor is left
        return False
    return state in (b"Z", b"X") or bool(int(fields[5]) & PF_EXITING)


def _tells_of_processes() -> bool:
    try:
        with open("/proc/self/stat"):
            return True
    except OSError:
        return False
