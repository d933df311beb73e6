"""Transfers one file into a partial file: continues what is there, bounded by the announced size.

Requests that a server refuses for the moment or that the network loses are repeated. huggingface_hub's own download
discards a partial file when its process ends, so hotseat transfers the bytes itself.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import httpx2

from hotseat.downloads.library import OfflineModeIsEnabled, get_session
from hotseat.downloads.problems import DownloadProblem, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from hotseat.identifiers import Bytes, Seconds

BLOCK: Bytes = 1 << 20
TIMEOUT_S = 30.0
PARTIAL = 206
BEYOND_END = 416
RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
T = TypeVar("T")
REQUEST_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL)
"""Also for an address that is no URL."""
MOST_FAILURES = 5
"""In a row, without a byte in between."""
LONGEST_WAIT_S: Seconds = 300.0
BUSY = (429, 503)
LATER = (408, 500, 502, 504, *BUSY)
SIGN_IN = "set HF_TOKEN to a token that may read it"
CHECK = f"check the spelling, or if it is private, {SIGN_IN}"


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


def require_https(response: httpx2.Response) -> None:
    """A server with https must not redirect to one without; a hub in the local network may have no https at all."""
    first, *others = [each.url for each in (*response.history, response)]
    if first.scheme == "https" and any(url.scheme != "https" for url in others):
        raise DownloadProblem(f"{first.host} redirects to an address without https, so nothing is downloaded from it")


@dataclass
class Patience:
    """How often something failed in a row, and how long to wait before the next attempt."""

    say: Callable[[str], None]
    pause: Callable[[Seconds], None] = time.sleep
    failures: int = 0

    def has_progressed(self) -> None:
        self.failures = 0

    def wait(self, problem: Exception, what: str) -> None:
        """Return when the next attempt may begin; DownloadProblem if there is none."""
        self.failures += 1
        if self.failures > MOST_FAILURES or not is_passing(problem):
            raise in_words(problem, what) from problem
        seconds = retry_after(problem) or float(1 << (self.failures - 1))
        if seconds > LONGEST_WAIT_S:
            raise DownloadProblem(f"{what}: the server asks to wait {seconds:g} s; run the same command later")
        self.say(f"{in_words(problem, what)}; next attempt in {seconds:g} s")
        self.pause(seconds)

    def until_done(self, call: Callable[[], T], what: str) -> T:
        while True:
            try:
                return call()
            except (*REQUEST_ERRORS, Interrupted) as problem:
                self.wait(problem, what)
            except OfflineModeIsEnabled:
                raise DownloadProblem("HF_HUB_OFFLINE is set, so nothing is downloaded: unset it") from None


def status_of(problem: Exception) -> int:
    """0: it got no answer."""
    response = getattr(problem, "response", None)
    return response.status_code if response is not None else 0


def is_passing(problem: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(problem, (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects)):
        return False
    return isinstance(problem, Interrupted) or status_of(problem) in (0, *LATER)


def retry_after(problem: Exception) -> Seconds:
    """As the server says in seconds; 0: it does not."""
    response = getattr(problem, "response", None)
    said = response.headers.get("Retry-After", "") if response is not None else ""
    return float(said) if said.isdecimal() and len(said) < 9 else 0.0


def in_words(problem: Exception, what: str) -> DownloadProblem:
    """The error as a sentence about `what`; never contains a header, so never a token."""
    status = status_of(problem)
    if status in (401, 403):
        is_gated = problem.response.headers.get("X-Error-Code") == "GatedRepo"  # type: ignore[attr-defined]
        hint = f"accept its terms on its page, then {SIGN_IN}" if is_gated else CHECK
        return DownloadProblem(f"{what}: the server refused access ({status}); {hint}")
    if status == 404:
        return DownloadProblem(f"{what} does not exist at the server; {CHECK}")
    if status == 429:
        return DownloadProblem(f"{what}: the server limits the number of requests (429)")
    if status:
        return DownloadProblem(f"{what}: the server answered {status}")
    if isinstance(problem, Interrupted):
        return DownloadProblem(f"{what}: {problem}")
    return DownloadProblem(f"{what}: the server cannot be reached ({_network(problem)})")


def _network(problem: Exception) -> str:
    return "timeout" if isinstance(problem, httpx2.TimeoutException) else str(problem) or type(problem).__name__


def disk_problem(problem: OSError, what: str) -> DownloadProblem:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadProblem(f"the disk is full; free some space and run the same command: {what} continues there")
    return DownloadProblem(f"{what} cannot be written: {problem.strerror or problem}")
