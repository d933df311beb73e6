"""A repository of a hub: its files, where they can be fetched, and their place in the hub's cache."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotseat.downloads.library import (
    build_hf_headers,
    constants,
    get_hf_file_metadata,
    get_session,
    hf_hub_url,
    repo_folder_name,
)
from hotseat.downloads.links import link
from hotseat.downloads.problems import DownloadProblem
from hotseat.downloads.transfer import TIMEOUT_S, Location, Wanted, fetched
from hotseat.downloads.variants import SHA256, RemoteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotseat.downloads.transfer import Patience
    from hotseat.identifiers import Bytes

COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_FILES = 5_000
LONGEST_LISTING: Bytes = 16 << 20


def address() -> str:
    """HF_ENDPOINT, or the public hub."""
    return constants.ENDPOINT


def cache() -> Path:
    return Path(constants.HF_HUB_CACHE)


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    commit: str
    """All files are of this commit, even if another follows while they are fetched."""
    files: Sequence[RemoteFile]

    def locate(self, file: RemoteFile) -> Location:
        """Ask the hub; the token goes to the hub only, never to the storage it refers to."""
        headers = build_hf_headers(library_name="hotseat")
        url = hf_hub_url(self.name, file.name, revision=self.commit, endpoint=address())
        found = get_hf_file_metadata(url, headers=headers)
        if found.etag != file.sha256:
            raise DownloadProblem(f"{address()} announces two different contents of {file.name}; try again later")
        is_elsewhere = _origin(found.location) != _origin(url)
        return Location(found.location, _without_token(headers) if is_elsewhere else headers)

    @property
    def _folder(self) -> Path:
        return cache() / repo_folder_name(repo_id=self.name, repo_type="model")

    def blob(self, file: RemoteFile) -> Path:
        return self._folder / "blobs" / file.sha256

    def part(self, file: RemoteFile) -> Path:
        blob = self.blob(file)
        return blob.with_name(f"{blob.name}.incomplete")

    def missing(self, file: RemoteFile) -> Bytes:
        """Bytes that are still to be fetched."""
        if self.blob(file).exists():
            return 0
        part = self.part(file)
        return max(file.size - part.stat().st_size, 0) if part.exists() else file.size

    def download(self, file: RemoteFile, patience: Patience, progress: Callable[[Bytes], None]) -> Path:
        """The file in the hub's cache, complete and verified."""
        blob = self.blob(file)
        if not blob.exists():
            part = self.part(file)
            wanted = Wanted(file.name, file.size, partial(self.locate, file), sha256=file.sha256)
            with fetched(wanted, part, patience, progress):
                part.replace(blob)
        self._enter(file)
        return Path(os.path.realpath(blob))

    def _enter(self, file: RemoteFile) -> None:
        """Give the file its name in the cache, where other programs look; the library would ask the hub again."""
        place = self._folder / "snapshots" / self.commit / file.name
        if not place.exists():
            link(place, Path(os.path.relpath(self.blob(file), place.parent)))


def repository(name: str, patience: Patience) -> Repository:
    """DownloadProblem if it does not exist or may not be read."""
    match patience.until_done(partial(_listing, name), name):
        case {"sha": str(commit), "siblings": list(siblings)} if COMMIT.fullmatch(commit):
            files = [_file(each) for each in siblings[:MOST_FILES]]
            return Repository(name, commit, [file for file in files if file])
    raise _no_hub()


def _listing(name: str) -> Any:
    """Its JSON; the library would read any length, and expand what is compressed."""
    headers = {**build_hf_headers(library_name="hotseat"), "Accept-Encoding": "identity"}
    url, body = f"{address()}/api/models/{name}", bytearray()
    with get_session().stream("GET", url, params={"blobs": True}, headers=headers, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        for block in response.iter_raw():
            body += block
            if len(body) > LONGEST_LISTING:
                raise _no_hub()
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise _no_hub() from None


def _no_hub() -> DownloadProblem:
    return DownloadProblem(f"{address()} did not answer like a hub; is HF_ENDPOINT correct?")


def _file(sibling: object) -> RemoteFile | None:
    """Only files in large file storage have a known SHA-256, and model files always are."""
    match sibling:
        case {"rfilename": str(name), "lfs": {"size": int(size), "sha256": str(sha256)}} if SHA256.fullmatch(sha256):
            return RemoteFile(name, size, sha256)
    return None


def _origin(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _without_token(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() != "authorization"}
