"""The server that loads models for a report: the running one, or one that is started for it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from hotseat.cli.client import Refused, Server
from hotseat.cli.problems import Problem, Unreachable
from hotseat.net.listeners import bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

LOOK_S = 0.2
END_S = 60.0
"""A server of ours gets this long to stop its models."""


def is_running(server: Server) -> bool:
    try:
        server.ask("GET", "/hotseat/ready")
    except Unreachable:
        return False
    except Refused:  # it needs a key, or is busy: the next request says so
        return True
    return True


@contextmanager
def started(config: Sequence[Path], api_key: str | None) -> Iterator[Server]:
    """`hotseat serve` on a free port of this machine."""
    server = Server(f"http://127.0.0.1:{free_port()}", api_key)
    options = [word for path in config for word in ("--config", str(path))]
    command = [sys.executable, "-m", "hotseat", "serve", *options, "--listen", server.url.removeprefix("http://")]
    with TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(process, replace(server, patience_s=END_S), log)
            yield server
        finally:
            process.terminate()
            process.wait(END_S)


def free_port() -> int:
    (listener,) = bound(("127.0.0.1", 0))
    with listener:
        return int(listener.getsockname()[1])


def wait_for(process: subprocess.Popen[bytes], server: Server, log: IO[bytes]) -> None:
    while not is_running(server):
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        log.seek(0)
        said = log.read().decode(errors="replace").strip().splitlines()
        raise Problem("`hotseat serve` could not start: " + (said[-1] if said else f"code {process.returncode}"))
