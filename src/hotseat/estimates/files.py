"""The impure part: opens model files and reads the processor's flags."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, TypeVar

    from hotseat.estimates.gguf import Head
    from hotseat.estimates.safetensors import Checkpoint

    T = TypeVar("T")

PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
MOST_PARTS = 1000
LONGEST_CONFIG = 10_000_000
PROCESSOR = Path("/proc/cpuinfo")


class Disk(Struct, frozen=True):
    """This machine's files; relative names are resolved in `folder`.

    What reads a kind of file is imported with the first one: a start without `devices` reads none.
    """

    folder: Path

    def gguf(self, path: str) -> Head:
        from hotseat.estimates.gguf import MOST_LISTED, read_head

        first, *others = parts_of(self.folder / path)
        head = _opened(first, read_head)
        tensors = [*head.tensors]
        for part in others:
            tensors += _opened(part, read_head).tensors
            if len(tensors) > MOST_LISTED:
                raise CannotEstimate(f"{path} has parts with more tensors than any known model")
        return replace(head, tensors=tuple(tensors))

    def checkpoint(self, path: str) -> Checkpoint:
        from hotseat.estimates.safetensors import checkpoint_of, weights_size

        folder = self.folder / path
        if not folder.is_dir():
            raise CannotEstimate(
                f"{path} is not a local folder: a model that is downloaded by name cannot be inspected"
            )
        weights = sum(_opened(file, weights_size) for file in sorted(folder.glob("*.safetensors")))
        if not weights:
            raise CannotEstimate(f"{path} contains no *.safetensors file")
        config = _opened(folder / "config.json", lambda stream, size, name: stream.read(min(size, LONGEST_CONFIG)))
        return checkpoint_of(config, weights, f"{path}/config.json")

    def processor(self) -> frozenset[str]:
        try:
            text = PROCESSOR.read_text(errors="replace")
        except OSError:
            return frozenset()  # not Linux
        flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
        return frozenset(flags[1].split()) if flags else frozenset()


def parts_of(first: Path) -> list[Path]:
    """All files of a split model, in order."""
    found = PART.fullmatch(first.name)
    if not found:
        return [first]
    count = int(found[3])
    if not 0 < count <= MOST_PARTS:
        raise CannotEstimate(f"{first} claims to be one of {count} parts")
    return [first.with_name(f"{found[1]}-{number:05}-of-{found[3]}.gguf") for number in range(1, count + 1)]


def folders_in(argv: tuple[str, ...]) -> frozenset[str]:
    """Where the files of a command may be: if one does not answer, neither do others there."""
    return frozenset(os.path.dirname(word) for word in argv[1:] if "/" in word)


def _opened(path: Path, read: Callable[[BinaryIO, int, str], T]) -> T:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would never answer
            raise CannotEstimate(f"{path} cannot be read: it is not a regular file")
        with path.open("rb") as stream:
            return read(stream, os.fstat(stream.fileno()).st_size, str(path))
    except OSError as error:
        raise CannotEstimate(f"{path} cannot be read: {error.strerror or error}") from None
