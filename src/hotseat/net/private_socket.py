"""A unix socket that only our own user can connect to, since no key is checked behind it."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def private_socket(name: str) -> Iterator[socket.socket]:
    """It listens, so that clients can connect and wait until somebody answers; its folder is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="hotseat-") as folder, socket.socket(socket.AF_UNIX) as sock:
        with only_for_us():
            sock.bind(str(Path(folder) / name))
        sock.listen(socket.SOMAXCONN)
        yield sock


@contextmanager
def only_for_us() -> Iterator[None]:
    """Files created inside the block have mode 0600. fchmod on a socket works only on Linux."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
