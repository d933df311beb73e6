"""How much of its files a loading server has read: true progress for any server on Linux, from the kernel.

A server reads its weights (rchar), reads them past the cache (read_bytes), or maps them (RssFile); the largest of the
three counts. It does not cover later work such as warming up, so 100 % does not mean ready.
Nothing is known of a process until it has one of the files open: what it read before are its own libraries.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.estimates.command import container_run
from hotseat.estimates.files import PART
from hotseat.model_servers.os_processes import PROC, children

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hotseat.identifiers import Bytes, Seconds

SMALLEST: Bytes = 1 << 20
"""Smaller files on a command line are templates and certificates, not weights."""
LOOK_S: Seconds = 0.25
READ = re.compile(r"^(?:rchar|read_bytes): (\d+)$", re.MULTILINE)
MAPPED = re.compile(r"^RssFile:\s+(\d+) kB$", re.MULTILINE)


class LoadProgress:
    """Of servers with one command line."""

    def __init__(self, argv: Sequence[str]) -> None:
        is_in_container = container_run(tuple(argv)) is not None
        self._files = frozenset(os.path.realpath(file) for file in weights(argv) if not is_in_container)
        self._has_begun = False
        self.weight = weight_of(argv)
        self.share: float | None = None
        """Of its files that the server has read; None: unknown, also in a container."""
        self.has_ended = threading.Event()

    def follow(self, pid: int) -> None:
        """Look at the server with this pid until it `has_ended`. In a thread: the kernel may not answer as long as the
        server waits for its disk."""
        while not self.has_ended.wait(LOOK_S):
            self.share = self._share(pid)

    def _share(self, pid: int) -> float | None:
        self._has_begun = self._has_begun or (bool(self._files) and uses(pid, self._files))
        taken = taken_in(pid) if self._has_begun else 0
        return min(taken / self.weight, 1.0) if taken else None


def weight_of(argv: Sequence[str]) -> Bytes:
    """Total size of the model files on a command line; 0 if there are none."""
    return sum(map(_size, weights(argv)))


def weights(argv: Sequence[str]) -> list[Path]:
    """The model files on a command line, with all their parts, in the order in which servers read them."""
    return sorted(file for file in files_named(argv) if _size(file) >= SMALLEST)


def files_named(argv: Sequence[str]) -> set[Path]:
    """What may be a file among the words of a command line, with all parts of split models."""
    words = {value for word in argv[1:] for value in (word, word.partition("=")[2]) if value}
    if run := container_run(tuple(argv)):
        words = {run.outside(word) for word in words}
    return {file for word in words for file in _files(Path(word))}


def taken_in(pid: int) -> Bytes:
    """Bytes read by a process and all its descendants; 0 if the kernel does not say."""
    read, mapped = READ.findall(process_text(pid, "io")), MAPPED.findall(process_text(pid, "status"))
    own = max([int(size) for size in read] + [int(size) << 10 for size in mapped], default=0)
    return own + sum(map(taken_in, children(pid)))


def uses(pid: int, files: Collection[str]) -> bool:
    """Has the process or a descendant one of the files open, or mapped?"""
    try:
        is_open = any(os.readlink(f"{PROC}/{pid}/fd/{each}") in files for each in os.listdir(f"{PROC}/{pid}/fd"))
    except OSError:  # gone, another user's, or it has just closed a file
        is_open = False
    mapped = process_text(pid, "maps")
    return is_open or any(file in mapped for file in files) or any(uses(child, files) for child in children(pid))


def _files(path: Path) -> Iterator[Path]:
    try:
        if path.is_dir():
            yield from path.glob("*.safetensors")
        elif part := PART.fullmatch(path.name):
            yield from path.parent.glob(f"{part[1]}-*-of-{part[3]}.gguf")
        else:
            yield path
    except (OSError, ValueError):  # not a valid file name
        return


def _size(file: Path) -> Bytes:
    try:
        return os.stat(file).st_size if file.is_file() else 0
    except OSError:
        return 0


def process_text(pid: int, name: str) -> str:
    try:
        with open(f"{PROC}/{pid}/{name}", errors="surrogateescape") as file:  # as Python writes the names of files
            return file.read()
    except OSError:  # gone, another user's, or not Linux
        return ""
