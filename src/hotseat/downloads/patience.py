"""Repeats requests that a server refuses for the moment or that the network loses, and puts final errors into words."""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import httpx2

from hotseat.downloads.library import OfflineModeIsEnabled
from hotseat.downloads.problems import DownloadProblem, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.identifiers import Seconds

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
