"""`hotseat debug-bundle`: one file for a bug report, without secrets and without contents of requests."""

from __future__ import annotations

import io
import os
import tarfile
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from hotseat.cli.problems import Problem
from hotseat.cli.reports.bundle_parts import Missing, Part, parts
from hotseat.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotseat.cli.client import Server

MASKED = "API keys, tokens, values of the environment, home directories and contents of requests were removed."
MODE = 0o600
LOOK = "Model servers may print anything, so check the files before you send them."


def debug_bundle(server: Server, config: Sequence[Path], file: Path) -> None:
    found = list(parts(server, config))
    kept = [each for each in found if isinstance(each, Part)]
    missing = [f"missing: {each.name}: {each.why}" for each in found if isinstance(each, Missing)]
    contents = table(("FILE", "BYTES", "WHAT"), [(part.name, str(len(part.data)), part.what) for part in kept])
    about = "\n".join([contents, *missing, "", MASKED, LOOK])
    write(file, [Part("README.txt", "this list", about.encode()), *kept])
    print(f"{about}\n\nWrote {file}. To inspect it: tar -xzf {file}")


def write(file: Path, kept: Sequence[Part]) -> None:
    """In a folder of the file's name."""
    folder = file.name.removesuffix(".tar.gz")
    with created(file) as opened, tarfile.open(fileobj=opened, mode="w:gz") as bundle:
        for part in kept:
            entry = tarfile.TarInfo(f"{folder}/{part.name}")
            entry.size, entry.mode, entry.mtime = len(part.data), MODE, int(time.time())
            bundle.addfile(entry, io.BytesIO(part.data))


@contextmanager
def created(file: Path) -> Iterator[IO[bytes]]:
    """A file that only its owner can read. An existing one is not replaced."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        with os.fdopen(descriptor, "wb") as opened:
            yield opened
    except FileExistsError:
        raise Problem(f"{file} exists already; name another file with -o") from None
    except OSError as problem:
        raise Problem(f"{file} cannot be written: {problem.strerror}") from None
