"""A model that can be downloaded: its files, the bytes that are still missing, and how it enters the models folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hotseat.downloads.hub import cache
from hotseat.downloads.links import link
from hotseat.downloads.remote_heads import RemoteFiles, RemotePart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotseat.downloads.hub import Repository
    from hotseat.downloads.patience import Patience
    from hotseat.downloads.url_file import UrlFile
    from hotseat.downloads.variants import RemoteFile, Variant
    from hotseat.identifiers import Bytes


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
