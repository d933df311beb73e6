"""Ports for servers whose port must be known before they listen."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

BELOW_THE_KERNELS_CHOICE = range(10_000, 32_768)
"""The kernel uses the ports above for outgoing connections: one of those may be taken before the server listens."""


_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens, at any address of this machine, and that no other caller here was given."""
    while True:
        port = random.choice(BELOW_THE_KERNELS_CHOICE)
        if port in _given:
            continue
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            _given.add(port)
            return port
