"""Transfers one file into a partial file: continues what is there, bounded by the announced size.

huggingface_hub's own download discards a partial file when its process ends, so hotseat transfers the bytes itself.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotseat.downloads.library import get_session
from hotseat.downloads.patience import REQUEST_ERRORS
from hotseat.downloads.problems import DownloadProblem, Interrupted
from hotseat.downloads.redirects import require_https

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import BinaryIO

    import httpx2

    from hotseat.downloads.patience import Patience
    from hotseat.identifiers import Bytes

BLOCK: Bytes = 1 << 20
TIMEOUT_S = 30.0
PARTIAL = 206
BEYOND_END = 416
RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")


@dataclass(frozen=True, slots=True)
class Location:
    """Where a file can be fetched now; links of a hub expire, so each attempt asks again."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    what: str
    """Its name in messages."""
    size: Bytes
    locate: Callable[[], Location]
    sha256: str = ""
    """Empty: unknown."""
    validator: str = ""
    """A strong ETag, if there is one: the server continues only if the file still has it."""

    @property
    def can_continue(self) -> bool:
        """Whether it can be known that what an earlier process left is of the same version."""
        return bool(self.sha256 or self.validator)


class Corrupt(DownloadProblem):
    """The bytes are not those that the hub announced."""


class Transfer:
    def __init__(self, wanted: Wanted, file: BinaryIO, progress: Callable[[Bytes], None]) -> None:
        self._wanted, self._file, self._progress = wanted, file, progress
        self._hash = hashlib.sha256()
        self._have: Bytes = 0

    def run(self, patience: Patience) -> None:
        self._take_up()
        most = self._have
        while self._have < self._wanted.size:
            try:
                self._attempt(self._wanted.locate())
            except (*REQUEST_ERRORS, Interrupted) as problem:
                if self._have > most:  # ever: a server may send the same beginning again and again
                    most = self._have
                    patience.has_progressed()
                patience.wait(problem, self._wanted.what)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._verify()

    def _take_up(self) -> None:
        """Count and hash what an earlier process left."""
        if not self._wanted.can_continue:
            self._file.truncate(0)
        self._file.seek(0)
        while block := self._file.read(BLOCK):
            self._hash.update(block)
            self._have += len(block)
        if self._have > self._wanted.size:
            self._start_over()
        self._progress(self._have)

    def _start_over(self) -> None:
        self._file.truncate(0)
        self._hash, self._have = hashlib.sha256(), 0
        self._progress(0)

    def _attempt(self, location: Location) -> None:
        headers = {**location.headers, "Accept-Encoding": "identity"}
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
            headers |= {"If-Range": self._wanted.validator} if self._wanted.validator else {}
        with get_session().stream("GET", location.url, headers=headers, timeout=TIMEOUT_S) as response:
            if response.status_code == BEYOND_END:
                self._start_over()
                raise Interrupted("the file has changed at the server")
            response.raise_for_status()
            require_https(response)
            self._agree(response)
            for block in response.iter_bytes():  # as it arrives, so that a cut loses nothing
                self._keep(block)
        if self._have < self._wanted.size:
            raise Interrupted("the connection ended early")

    def _agree(self, response: httpx2.Response) -> None:
        """Continue only where the server does, and only with the same version of the file."""
        if response.status_code == PARTIAL:
            problem = self._problem_of_part(response.headers)
            if problem:
                self._start_over()
                raise Interrupted(problem)
        elif self._have:
            length = response.headers.get("Content-Length", str(self._wanted.size))
            if length != str(self._wanted.size):
                raise Interrupted(f"the server sent {length} bytes instead of the file")
            self._start_over()

    def _problem_of_part(self, headers: httpx2.Headers) -> str:
        said = RANGE.fullmatch(headers.get("Content-Range", ""))
        if not said or int(said[1]) != self._have or said[2] not in ("*", str(self._wanted.size)):
            return "the server sent another part of the file than requested"
        if self._wanted.validator and headers.get("ETag", self._wanted.validator) != self._wanted.validator:
            return "the file has changed at the server"
        return ""

    def _keep(self, block: bytes) -> None:
        if self._have + len(block) > self._wanted.size:
            raise Corrupt(f"{self._wanted.what}: the server sent more than the {self._wanted.size} bytes it announced")
        self._file.write(block)
        self._hash.update(block)
        self._have += len(block)
        self._progress(self._have)

    def _verify(self) -> None:
        if self._wanted.sha256 and self._hash.hexdigest() != self._wanted.sha256:
            raise Corrupt(
                f"{self._wanted.what} is not what the hub announced (its SHA-256 differs); it was deleted: "
                "run the same command again"
            )
