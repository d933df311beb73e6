"""A server that is killed amid an answer that ends with its connection."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hotseat.relay.dying import is_dying

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
HOLDING = SERVER + "kept = s.accept()[0]; kept.send(b'x'); time.sleep(60)"


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", HOLDING], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_killed_server_is_seen_dying_as_soon_as_its_connection_ends(server: subprocess.Popen[str]) -> None:
    """At the very first sight of the end, before anybody collected it."""
    assert server.stdout is not None
    with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as connection:
        assert connection.recv(1) == b"x"
        assert not is_dying(server.pid)
        server.send_signal(signal.SIGKILL)
        assert connection.recv(1) == b""

        assert is_dying(server.pid)


def test_a_process_that_is_gone_is_dying(server: subprocess.Popen[str]) -> None:
    """Its end was seen by others first."""
    server.kill()
    server.wait()

    assert is_dying(server.pid)


def test_we_are_alive() -> None:
    """Nobody who asks is dying."""
    assert not is_dying(os.getpid())


def test_who_cannot_look_does_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file descriptor nothing is known of the server, and its answer passes for whole."""

    def no_descriptor(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("builtins.open", no_descriptor)

    assert not is_dying(os.getpid())
