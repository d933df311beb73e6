"""The server that loads models for a report: the running one, or one that is started for it."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from hotseat.cli.client import Refused, Server
from hotseat.cli.problems import NothingListens, Problem, Unreachable
from hotseat.net.listeners import bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from hotseat.identifiers import Instant

LOOK_S = 0.2
END_S = 60.0
"""A server of ours gets this long to stop its models."""
ASK_S = 5.0
"""For one answer of a server that starts."""
UNCLEAR = "The report started no server, since one may run there: make it reachable, or stop it, and try again"


def is_running(server: Server) -> bool:
    """Only a refused connection means no; whatever else keeps it from answering is a Problem."""
    try:
        return responds(server)
    except NothingListens:
        return False
    except Unreachable as problem:
        raise Unreachable(f"{problem}. {UNCLEAR}") from None


def responds(server: Server) -> bool:
    try:
        server.ask("GET", "/hotseat/ready")
    except Refused as refused:
        if refused.status < 300:
            raise Problem(
                f"another program than hotseat responds at {server.url}; stop it, or change `listen`"
            ) from None
    return True  # it may need a key, or be busy: the next request says so


@contextmanager
def started(config: Sequence[Path], api_key: str | None, has_tls: bool, until: Instant) -> Iterator[Server]:
    """`hotseat serve` on a free port of this machine. Its certificate is for another address, so any is accepted."""
    address = f"127.0.0.1:{free_port()}"
    tls = any_certificate() if has_tls else None
    server = Server(f"{'https' if tls else 'http'}://{address}", api_key, tls=tls)
    options = [word for path in config for word in ("--config", str(path))]
    command = [sys.executable, "-m", "hotseat", "serve", *options, "--listen", address]
    with TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(process, replace(server, patience_s=ASK_S), log, until)
            yield server
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """The process is gone afterwards; the guards of its models end them if it had to be killed."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    (listener,) = bound(("127.0.0.1", 0))
    with listener:
        return int(listener.getsockname()[1])


def any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def wait_for(process: subprocess.Popen[bytes], server: Server, log: IO[bytes], until: Instant) -> None:
    """A Problem with the last line of its log if it ends, or does not respond in time."""
    while not has_started(server):
        try:
            process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until:
                continue
            said = last_line(log) or "it printed nothing"
            raise Problem(f"`hotseat serve` did not respond within the time limit: {said}") from None
        said = last_line(log) or f"code {process.returncode}"
        raise Problem(f"`hotseat serve` could not start: {said}")


def has_started(server: Server) -> bool:
    try:
        return responds(server)
    except Unreachable:
        return False


def last_line(log: IO[bytes]) -> str:
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    return said[-1] if said else ""
