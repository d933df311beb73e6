"""Controls a client in its own process through a pipe to `clients/callers` or `clients/node`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from clients.rig import QUESTION, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client's user got: an answer, or an error as the user reads it."""

    text: str
    pieces: int
    error: str | None
    left_at: float | None


class Caller:
    """Makes one call at a time."""

    def __init__(self, calls: IO[str], outcomes: IO[str], stderr: IO[str]) -> None:
        self._calls, self._outcomes, self._stderr = calls, outcomes, stderr
        hello = self._read()
        self.version = str(hello["version"])
        self.limit_s: float | None = hello["limit_s"]
        """After how long without a byte the client gives up by default; None: never."""

    def ask(self, model: str) -> Outcome:
        self.begin("ask", model)
        return self.outcome()

    def stream(self, model: str, limit_s: float | None = None) -> Outcome:
        """Stream, giving up after so many seconds without a byte; None: the client's default."""
        self.begin("stream", model, limit_s)
        return self.outcome()

    def leave(self, model: str) -> Outcome:
        """Stream, and close the stream after three pieces."""
        self.begin("leave", model)
        return self.outcome()

    def begin(self, act: str, model: str, limit_s: float | None = None) -> None:
        """Call without waiting for the outcome."""
        print(json.dumps({"act": act, "model": model, "limit_s": limit_s}), file=self._calls, flush=True)

    def outcome(self) -> Outcome:
        return Outcome(**self._read())

    def _read(self) -> dict[str, Any]:
        if line := self._outcomes.readline():
            return dict(json.loads(line))
        self._stderr.seek(0)
        raise AssertionError(f"the client's process ended:\n{self._stderr.read()}")


@contextmanager
def calling(argv: Sequence[str], url: str, **variables: str) -> Iterator[Caller]:
    """A caller for the hotseat at this address, with these variables; its process ends with the block."""
    with (
        tempfile.TemporaryFile("w+", errors="replace") as stderr,
        subprocess.Popen(
            [*argv, url, QUESTION],
            cwd=REPOSITORY,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            yield Caller(process.stdin, process.stdout, stderr)
        finally:
            process.kill()
