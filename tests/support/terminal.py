"""A pseudo-terminal: sends keys and waits for output."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING, Self

from tests.support.hotseat import PROGRAM, START_S

if TYPE_CHECKING:
    from collections.abc import Mapping

CTRL_C = "\x03"


class Terminal:
    """Runs a command of the installed program; leaving the block ends it."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **(env or {})}
        # A session with this terminal as its controlling terminal, so that keys such as Ctrl-C work.
        argv = ["setsid", "--ctty", "--wait", str(PROGRAM), *words]
        self.process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str) -> str:
        """Read until the text is shown; returns the output up to its end."""
        until = time.monotonic() + START_S
        while text not in self.shown:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} was never shown: {self.shown!r}"
            if select.select([self._ours], [], [], left)[0]:
                self.shown += os.read(self._ours, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def exit_code(self) -> int:
        """Once it has ended by itself."""
        return self.process.wait(START_S)
