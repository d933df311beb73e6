"""Reads the heads of GGUF files at a server with range requests, for estimates before anything is downloaded."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hotseat.downloads.library import get_session
from hotseat.downloads.patience import REQUEST_ERRORS
from hotseat.downloads.redirects import require_https
from hotseat.downloads.transfer import PARTIAL, TIMEOUT_S
from hotseat.estimates.files import Disk
from hotseat.estimates.gguf import read_head
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotseat.downloads.transfer import Location
    from hotseat.estimates.gguf import Head
    from hotseat.estimates.safetensors import Checkpoint
    from hotseat.identifiers import Bytes

BLOCK: Bytes = 1 << 20
MOST: Bytes = 64 << 20
"""The heads of the largest vocabularies take a sixth of this."""


@dataclass(frozen=True, slots=True)
class RemotePart:
    name: str
    size: Bytes
    locate: Callable[[], Location]


@dataclass
class RemoteFiles:
    """`estimates.machine.Files` for files at a server; each head is read once."""

    parts: Mapping[str, Sequence[RemotePart]]
    """By the name of the first part."""
    _heads: dict[str, Head] = field(default_factory=dict)

    def gguf(self, path: str) -> Head:
        if path not in self._heads:
            heads = [_head(part) for part in self.parts[path]]
            tensors = tuple(tensor for head in heads for tensor in head.tensors)
            self._heads[path] = replace(heads[0], tensors=tensors)
        return self._heads[path]

    def checkpoint(self, path: str) -> Checkpoint:
        raise CannotEstimate(f"{path} is not a GGUF file")

    def processor(self) -> frozenset[str]:
        return Disk(Path()).processor()


def _head(part: RemotePart) -> Head:
    try:
        stream = io.BufferedReader(_Ranges(part.size, partial(_range, part.locate())), BLOCK)
        return read_head(stream, part.size, part.name)
    except (*REQUEST_ERRORS, OSError) as problem:
        raise CannotEstimate(f"the header of {part.name} could not be read: {problem}") from None


def _range(location: Location, start: int, length: int) -> bytes:
    headers = {**location.headers, "Accept-Encoding": "identity", "Range": f"bytes={start}-{start + length - 1}"}
    with get_session().stream("GET", location.url, headers=headers, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        require_https(response)
        if response.status_code != PARTIAL:
            raise OSError("the server sends whole files only")
        sent = b""
        for block in response.iter_bytes(length):
            sent += block
            if len(sent) >= length:
                break
        return sent[:length]


class _Ranges(io.RawIOBase):
    """A file whose reads are range requests, up to a limit."""

    def __init__(self, size: Bytes, fetch: Callable[[int, int], bytes]) -> None:
        self._size, self._fetch = size, fetch
        self._at = 0
        self._left = MOST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as the caller passes it
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        self._left -= length
        if self._left < 0:
            raise OSError(f"it is longer than {MOST >> 20} MiB")
        block = self._fetch(self._at, length)
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)
