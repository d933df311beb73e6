"""What an application gets for one run: hotseat's address, a home of its own, and a project with a file in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clients.rig import REPOSITORY
from tests.support.forked_hotseat import ForkedHotseat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MODELS = ("qwen", "gemma")
"""One at a time, so the second question causes a swap."""
WORD = "quokka"
"""In a file of the project and in no question: who says it has read the file."""
NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there: what an application sends to other hosts fails at once."""
PATIENCE_S = 300
"""aider needs 15 s of a processor to start."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a user sees."""

    answer: str
    everything: str
    """The answer, messages and errors."""


@dataclass(frozen=True, slots=True)
class Workspace:
    url: str
    home: Path

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def file(self) -> Path:
        return self.project / "word.txt"

    def running(self) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/running", timeout=PATIENCE_S) as response:
            return list(json.load(response)["running"])

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Nothing of this machine's user, and no other host."""
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
        direct = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")
        ours = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NO_COLOR": "1"}
        return {**ours, **proxies, **direct, **more}

    def run(self, argv: Sequence[str], environ: Mapping[str, str]) -> Shown:
        done = subprocess.run(
            argv,
            check=False,
            cwd=self.project,
            env=self.environment(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Shown(done.stdout, done.stdout + done.stderr)


@contextmanager
def open_workspace(folder: Path) -> Iterator[Workspace]:
    with ForkedHotseat({"models": {name: model(name) for name in MODELS}}, folder) as hotseat:
        workspace = Workspace(hotseat.url, folder / "home")
        workspace.project.mkdir(parents=True)
        workspace.file.write_text(f"{WORD}\n")
        yield workspace


def model(name: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "clients.applications.scripted_model", "--name", name, "--port"]
    return {"cmd": f"{shlex.join(words)} ${{PORT}}", "env": {"PYTHONPATH": str(REPOSITORY)}}
