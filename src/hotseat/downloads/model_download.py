"""A model that can be downloaded: its files, the bytes that are still missing, and how it enters the models folder.

The heads of its files are read with range requests, for estimates before anything is downloaded.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hotseat.downloads.hub import cache
from hotseat.downloads.library import get_session
from hotseat.downloads.links import link
from hotseat.downloads.transfer import PARTIAL, REQUEST_ERRORS, TIMEOUT_S, require_https
from hotseat.estimates.files import Disk
from hotseat.estimates.gguf import read_head
from hotseat.estimates.report import CannotEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hotseat.downloads.hub import Repository
    from hotseat.downloads.transfer import Location, Patience
    from hotseat.downloads.url_file import UrlFile
    from hotseat.downloads.variants import RemoteFile, Variant
    from hotseat.estimates.gguf import Head
    from hotseat.estimates.safetensors import Checkpoint
    from hotseat.identifiers import Bytes

BLOCK: Bytes = 1 << 20
MOST: Bytes = 64 << 20
"""The heads of the largest vocabularies take a sixth of this."""


class ModelDownload(Protocol):
    @property
    def files(self) -> tuple[tuple[str, Bytes], ...]:
        """Names and sizes, the model's first file first."""

    @property
    def missing(self) -> Bytes: ...

    @property
    def folder(self) -> Path:
        """The models folder."""

    @property
    def disk(self) -> Path:
        """The folder whose disk takes the bytes."""

    @property
    def can_continue(self) -> bool:
        """Whether another process can continue it."""

    def run(self, patience: Patience, progress: Callable[[Bytes], None]) -> Path:
        """The model's first file in the models folder; `progress` gets the number of bytes there so far."""


@dataclass(frozen=True, slots=True)
class HubDownload:
    repository: Repository
    variant: Variant
    projector: RemoteFile | None
    folder: Path

    @property
    def _all(self) -> tuple[RemoteFile, ...]:
        return (*self.variant.files, *([self.projector] if self.projector else ()))

    @property
    def files(self) -> tuple[tuple[str, Bytes], ...]:
        return tuple((file.name, file.size) for file in self._all)

    @property
    def missing(self) -> Bytes:
        return sum(map(self.repository.missing, self._all))

    @property
    def disk(self) -> Path:
        return cache()

    @property
    def can_continue(self) -> bool:
        return True

    def run(self, patience: Patience, progress: Callable[[Bytes], None]) -> Path:
        before, places = 0, []
        for file in self._all:
            cached = self.repository.download(file, patience, partial(_add, progress, before))
            before += file.size
            progress(before)
            places.append((self._place(file), cached))
        for place, cached in reversed(places):  # the first part last: it makes the model visible
            link(place, cached)
        return places[0][0]

    def _place(self, file: RemoteFile) -> Path:
        """Below the repository's name; a projector lies beside its model, where it is found."""
        beside = Path(self.variant.first.name).parent
        return self.folder / self.repository.name / beside / file.base_name


@dataclass(frozen=True, slots=True)
class UrlDownload:
    file: UrlFile
    folder: Path

    @property
    def files(self) -> tuple[tuple[str, Bytes], ...]:
        return ((self.file.name, self.file.size),)

    @property
    def missing(self) -> Bytes:
        return self.file.missing(self.folder)

    @property
    def disk(self) -> Path:
        return self.folder

    @property
    def can_continue(self) -> bool:
        return bool(self.file.validator)

    def run(self, patience: Patience, progress: Callable[[Bytes], None]) -> Path:
        return self.file.download(self.folder, patience, progress)


def _add(progress: Callable[[Bytes], None], before: Bytes, more: Bytes) -> None:
    progress(before + more)


def remote_files(repository: Repository, variants: Iterable[Variant], projector: RemoteFile | None) -> RemoteFiles:
    """The heads of these files, read when an estimate asks for them."""
    groups = [variant.files for variant in variants] + ([(projector,)] if projector else [])
    return RemoteFiles(
        {
            group[0].name: [RemotePart(file.name, file.size, partial(repository.locate, file)) for file in group]
            for group in groups
        }
    )


def remote_file(file: UrlFile) -> RemoteFiles:
    return RemoteFiles({file.name: [RemotePart(file.name, file.size, file.locate)]})


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
