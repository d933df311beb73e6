"""Evicts a file from the page cache or loads it, and verifies that page by page."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 20
TRIES, WARM = 10, 0.995
LIBC = ctypes.CDLL(None, use_errno=True)


def make_cold(path: Path) -> None:
    """No page of it stays in memory; SystemExit if some do, for example because a process maps them."""
    tries = 0
    while (share := resident_share(path)) and tries < TRIES:
        drop(path)
        tries += 1
    if share:
        raise SystemExit(f"{share:.1%} of {path} stay in the page cache: who maps it?")


def drop(path: Path) -> None:
    """Ask the kernel to drop its pages. It keeps those that another CPU uses at this moment."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)  # dirty pages cannot be dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def make_warm(path: Path) -> None:
    """All of it is in memory, except what a kernel that reclaims early may have dropped meanwhile."""
    tries = 0
    while (share := resident_share(path)) < WARM and tries < TRIES:
        read_through(path)
        tries += 1
    if share < WARM:
        raise SystemExit(f"only {share:.1%} of {path} fit into the page cache")


def read_through(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(CHUNK)
        while file.readinto(buffer):
            pass


def resident_share(path: Path) -> float:
    """The share of its pages that is in memory, from mincore."""
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        states = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        failed = LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), states)
        del first  # or the mapping cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), f"mincore of {path}")
    return sum(state & 1 for state in bytes(states)) / len(states)
