"""A file that only its owner can read. An existing one is not replaced."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from hotseat.cli.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODE = 0o600


@contextmanager
def created(file: Path) -> Iterator[IO[bytes]]:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        with os.fdopen(descriptor, "wb") as opened:
            yield opened
    except FileExistsError:
        raise exists(file) from None
    except OSError as problem:
        raise Problem(f"{file} cannot be written: {problem.strerror}") from None


def exists(file: Path) -> Problem:
    return Problem(f"{file} exists already; name another file with -o")
