"""`hotseat` on a system that lacks what macOS lacks and Python can hide: what Linux alone has is removed first."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import time
from contextlib import suppress

FUNCTIONS = ("eventfd", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise", "sched_getaffinity", "splice", "waitid")
OPTIONS = ("AF_NETLINK", "SO_PEERCRED", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "TCP_INFO", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT")
MISSING = (
    (os, FUNCTIONS),
    (socket, OPTIONS),
    (fcntl, ("F_GETPIPE_SZ", "F_SETPIPE_SZ")),
    (time, ("CLOCK_BOOTTIME",)),
    (select, ("epoll",)),
)

if __name__ == "__main__":
    for module, names in MISSING:
        for name in names:
            with suppress(AttributeError):
                delattr(module, name)
    vars(os)["process_cpu_count"] = os.cpu_count  # as on macOS; on Linux it needs sched_getaffinity since Python 3.13

    from hotseat.cli import main

    main()
