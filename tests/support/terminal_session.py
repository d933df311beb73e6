"""The terminal of a person who types one command after the other."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.support.hotseat import MARK
from tests.support.processes import all_pids, environment

if TYPE_CHECKING:
    from collections.abc import Mapping


class Session:
    """Exported variables, the working directory and programs in the background last from one command to the next."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._mark = f"{MARK}={home}"
        self.environ = {**environ, MARK: str(home), "PWD": str(home)}

    @property
    def folder(self) -> Path:
        return Path(self.environ["PWD"])

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Return when it has ended, also if programs that it started still run and could print something."""
        with TemporaryDirectory() as folder:
            out, errors, after = (Path(folder) / name for name in ("out", "errors", "after"))
            with out.open("wb") as to_out, errors.open("wb") as to_errors:
                script = f"set -e\n{command}\nenv -0 > {after}"
                bash = subprocess.Popen(
                    ["bash", "-c", script], cwd=self.folder, env=self.environ, stdout=to_out, stderr=to_errors
                )
                bash.wait()
            if after.exists():
                self.environ = dict(each.split("=", 1) for each in after.read_text().rstrip("\0").split("\0"))
            return subprocess.CompletedProcess(command, bash.returncode, out.read_text(), errors.read_text())

    def processes(self) -> list[int]:
        """Every process that was started here and still runs."""
        return [pid for pid in all_pids() if self._mark.encode() in environment(pid).split(b"\0")]

    def end_all(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
