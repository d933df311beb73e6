"""How a command proves that it runs as the user who runs the server: it writes a secret where only that user can.

Before there are keys, nothing else tells the owner of a server from a web page, a container or another user, whose
requests come from the same address. Apart from the keys themselves, which a command need not import.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager
from hmac import compare_digest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROOF = "first-key"
"""In the state directory, while `hotseat keys create` runs."""
LENGTH = 64


@contextmanager
def written_proof(directory: Path) -> Iterator[str]:
    """What the command must send; the server finds the same in its state directory until the block ends."""
    proof, path = secrets.token_hex(LENGTH // 2), directory / PROOF
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of a command that was killed
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(proof)
        yield proof
    finally:
        path.unlink(missing_ok=True)


def is_proven(directory: Path, sent: str) -> bool:
    """Is this what a command of the same user has written, and nobody else could read?"""
    try:
        found, mode = _read(directory / PROOF)
    except OSError:
        return False
    is_private = stat.S_ISREG(mode) and stat.S_IMODE(mode) == 0o600
    return is_private and len(found) == LENGTH and compare_digest(found, sent.encode("utf-8", "replace"))


def _read(path: Path) -> tuple[bytes, int]:
    """Its beginning and its mode; follows no link and waits for no pipe."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as opened:
        return opened.read(LENGTH), os.fstat(opened.fileno()).st_mode
