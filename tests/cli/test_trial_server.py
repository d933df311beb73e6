"""Whether a server runs, which a report must know before it starts one."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, eventually

from hotseat.cli.client import Server
from hotseat.cli.problems import Problem, Unreachable
from hotseat.cli.reports import machine_report
from hotseat.cli.reports.machine_report import end, is_running, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def listening(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """One connection is accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with listener.accept()[0] as connection:
                serve(connection)

        thread = Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def closed(connection: socket.socket) -> None:
    connection.recv(1)


def answered(connection: socket.socket) -> None:
    connection.recv(9999)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def silent(connection: socket.socket) -> None:
    while connection.recv(9999):
        pass


def test_a_refused_connection() -> None:
    """Nothing runs there."""
    assert not is_running(Server(f"http://127.0.0.1:{free_port()}"))


@pytest.mark.parametrize("serve", [closed, silent])
def test_a_server_that_does_not_answer(serve: Callable[[socket.socket], object]) -> None:
    """It may be hotseat, so the problem says what to do."""
    with listening(serve) as port, pytest.raises(Unreachable, match=r"The report started no server.* or stop it"):
        is_running(Server(f"http://127.0.0.1:{port}", patience_s=0.1))


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    """The problem says how to trust it."""
    file = tmp_path / "cert.pem"
    file.write_text(CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)

    def shaken(connection: socket.socket) -> None:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)

    with listening(shaken) as port, pytest.raises(Unreachable, match=r"SSL_CERT_FILE\. The report started no server"):
        is_running(Server(f"https://127.0.0.1:{port}"))


def test_another_program() -> None:
    """It is not asked for models."""
    with listening(answered) as port, pytest.raises(Problem, match="another program than hotseat responds"):
        is_running(Server(f"http://127.0.0.1:{port}", patience_s=10))


@pytest.mark.parametrize(
    ("program", "problem", "limit_s"),
    [
        (
            "print('I wait', flush=True); import signal; signal.pause()",
            "did not respond within the time limit: I wait",
            0.5,
        ),
        ("print('no card'); exit(3)", "could not start: no card", PATIENCE_S),
        ("exit(3)", "could not start: code 3", PATIENCE_S),
    ],
)
def test_a_server_that_does_not_start(program: str, problem: str, limit_s: float) -> None:
    """The wait has an end, and the problem has the last line of its log."""
    with TemporaryFile() as log, subprocess.Popen([sys.executable, "-c", program], stdout=log) as process:
        try:
            eventually(lambda: os.fstat(log.fileno()).st_size or process.poll() is not None)
            with pytest.raises(Problem, match=problem):
                wait_for(process, Server(f"http://127.0.0.1:{free_port()}"), log, time.monotonic() + limit_s)
        finally:
            process.kill()


IGNORES_SIGTERM = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_a_server_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, so that a report ends, and leaves nothing behind."""
    monkeypatch.setattr(machine_report, "END_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", IGNORES_SIGTERM], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            end(process)
        finally:
            process.kill()

    assert process.returncode == -signal.SIGKILL
