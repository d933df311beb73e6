"""Ports for servers whose port must be known before they listen."""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from typing import NamedTuple

BELOW_THE_KERNELS_CHOICE = range(10_000, 32_768)
"""The kernel uses the ports above for outgoing connections: one of those may be taken before the server listens."""

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
OURS = BELOW_THE_KERNELS_CHOICE[WORKER::WORKERS]
"""Two processes that run tests have no port in common: until its server listens, a port looks free to both of them."""

_given: set[int] = set()


class Machine(NamedTuple):
    """Where a server under test runs."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()
    """Before a command, these words run it there."""


THIS_MACHINE = Machine()


def free_port() -> int:
    """A port on which nothing listens, at any address of this machine, and that no other caller here was given."""
    while True:
        port = random.choice(OURS)
        if port in _given:
            continue
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            _given.add(port)
            return port
