"""The partial file of a download, beside its target: one process at a time writes to it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotseat.downloads.patience import disk_problem
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.transfer import Corrupt, Transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from hotseat.downloads.patience import Patience
    from hotseat.downloads.transfer import Wanted
    from hotseat.identifiers import Bytes


@contextmanager
def fetched(wanted: Wanted, part: Path, patience: Patience, progress: Callable[[Bytes], None]) -> Iterator[None]:
    """`part` holds the whole file, and no other process writes to it until the caller has renamed it.

    `progress` gets the number of bytes that are there so far.
    """
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("a+b") as file:
            _lock(file, part, wanted.what)
            Transfer(wanted, file, progress).run(patience)
            yield
    except OSError as problem:
        raise disk_problem(problem, wanted.what) from problem
    except Corrupt:
        part.unlink()
        raise


def _lock(file: BinaryIO, part: Path, what: str) -> None:
    """Released when the process ends, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samefile(part, file.fileno())  # False if another process has just renamed it
    except (BlockingIOError, FileNotFoundError):
        is_ours = False
    if not is_ours:
        raise DownloadProblem(f"another process is downloading {what}; wait for it")
