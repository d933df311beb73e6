"""A file by its URL: its size and version are asked first, and a download continues only what it began."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hotseat.downloads.library import get_session
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.transfer import RANGE, TIMEOUT_S, Location, Wanted, fetched, require_https

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx2

    from hotseat.downloads.reference import UrlReference
    from hotseat.downloads.transfer import Patience
    from hotseat.identifiers import Bytes

MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class UrlFile:
    url: str
    name: str
    size: Bytes
    validator: str
    """A strong ETag; empty: there is none, so an interrupted download starts over."""

    def locate(self) -> Location:
        return Location(self.url)

    def part(self, folder: Path) -> Path:
        """Another version of the file has another name, so it is never continued with this one."""
        version = hashlib.sha256(f"{self.url} {self.validator} {self.size}".encode()).hexdigest()[:12]
        return folder / f".{self.name}.{version}.part"

    def missing(self, folder: Path) -> Bytes:
        part = self.part(folder)
        return max(self.size - part.stat().st_size, 0) if part.exists() and self.validator else self.size

    def download(self, folder: Path, patience: Patience, progress: Callable[[Bytes], None]) -> Path:
        target, part = folder / self.name, self.part(folder)
        wanted = Wanted(self.name, self.size, self.locate, validator=self.validator)
        with fetched(wanted, part, patience, progress):
            refuse_existing(target)
            part.replace(target)
        return target


def refuse_existing(target: Path) -> None:
    """A file of this name may be another one: only the user knows."""
    if target.exists():
        raise DownloadProblem(f"{target} exists already; delete or rename it to download it again")


def look_up(reference: UrlReference, patience: Patience) -> UrlFile:
    """Ask for the first byte only, because many servers refuse HEAD."""
    return patience.until_done(partial(_look_up, reference), reference.url)


def _look_up(reference: UrlReference) -> UrlFile:
    headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    with get_session().stream("GET", reference.url, headers=headers, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        require_https(response)
        etag = response.headers.get("ETag", "")
        validator = etag if etag.startswith('"') else ""
        return UrlFile(reference.url, reference.name, _size(response, reference.url), validator)


def _size(response: httpx2.Response, url: str) -> Bytes:
    said = RANGE.fullmatch(response.headers.get("Content-Range", ""))
    size = said[2] if said else response.headers.get("Content-Length", "")
    if not size.isdecimal() or len(size) > MOST_DIGITS:
        raise DownloadProblem(f"{url} does not say how large it is, so it is not downloaded")
    return int(size)
