"""What is of this machine, and the socket that only our own user can connect to."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.hotseat import Hotseat

from hotseat.net.listeners import is_here, own_names, private_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_the_socket_is_ours_alone() -> None:
    """The socket has mode 0600 whatever the umask is, and is removed afterwards."""
    before = os.umask(0)
    try:
        with private_socket("api") as sock:
            path = Path(sock.getsockname())
            rights = path.stat()
    finally:
        os.umask(before)

    assert stat.S_ISSOCK(rights.st_mode)
    assert stat.S_IMODE(rights.st_mode) == 0o600
    assert rights.st_uid == os.geteuid()
    assert not path.exists()


def test_the_socket_is_ours_alone_where_the_rights_of_a_socket_cannot_be_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """macOS refuses fchmod on a socket; the socket still has mode 0600 because it is created with it."""

    def refused(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fchmod", refused)
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    with private_socket("api") as sock:
        rights = Path(sock.getsockname()).stat()

    assert stat.S_IMODE(rights.st_mode) == 0o600


def test_a_client_can_connect_before_anybody_answers() -> None:
    """Requests for the management API wait while it is still being imported; they are not refused."""
    with private_socket("api") as sock, socket.socket(socket.AF_UNIX) as client:
        client.connect(sock.getsockname())
        client.sendall(b"hello")
        accepted, _ = sock.accept()
        with accepted:
            received = accepted.recv(5)

    assert received == b"hello"


def test_the_program_keeps_its_socket_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """The folder has mode 0700, the socket 0600, and both are removed when the program exits."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    with Hotseat({"models": {}}, tmp_path, environ={"TMPDIR": str(folder)}) as rig:
        (private,) = folder.iterdir()
        rights, api_socket = private.stat(), (private / "api").stat()
        with socket.socket(socket.AF_UNIX) as waiter:
            waiter.connect(str(private / "api"))
        answer = rig.call("GET", "/health")

    assert (stat.S_IMODE(rights.st_mode), rights.st_uid) == (0o700, os.geteuid())
    assert (stat.S_IMODE(api_socket.st_mode), api_socket.st_uid) == (0o600, os.geteuid())
    assert answer.status == 200
    assert list(folder.iterdir()) == []


KEEPER = """
import sys, tempfile
from hotseat.net.listeners import private_socket
tempfile.tempdir = sys.argv[1]
with private_socket("api") as sock:
    print(sock.getsockname(), flush=True)
    sys.stdin.read()
"""


@contextmanager
def kept_in(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with such a socket, and its folder."""
    words = [sys.executable, "-c", KEEPER, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip()).parent
        process.kill()


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that one: not the folder of a living process, of one that begins, or of a version without a lock."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    beginning, older = tmp_path / "hotseat-begins", tmp_path / "hotseat-older"
    beginning.mkdir()
    (beginning / "lock").touch()
    older.mkdir()
    with socket.socket(socket.AF_UNIX) as unlocked, kept_in(tmp_path) as (_, living):
        unlocked.bind(str(older / "api"))
        with kept_in(tmp_path) as (process, left):
            process.kill()
            process.wait()
        was_left = left.exists()
        with private_socket("api") as sock:
            own = Path(sock.getsockname()).parent
            there = {*tmp_path.iterdir()}

    assert was_left
    assert there == {beginning, older, living, own}


def test_the_folder_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could remove it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with kept_in(tmp_path) as (process, left):
        process.kill()
        process.wait()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with private_socket("api"):
        pass

    assert left.exists()


def test_where_nothing_can_be_locked_no_folder_is_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems have no locks, or not always."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as without_locks:
        without_locks.setattr(fcntl, "flock", refused)
        first = private_socket("api")
        path = Path(first.__enter__().getsockname())
    with private_socket("api"):
        is_there = path.exists()
    first.__exit__(None, None, None)

    assert is_there


def test_looking_for_leftovers_takes_no_longer_in_a_full_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many entries are looked at."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("hotseat.net.listeners.MOST_LOOKED_AT", 0)
    with kept_in(tmp_path) as (process, left):
        process.kill()
        process.wait()
    with private_socket("api"):
        pass

    assert left.exists()


@pytest.fixture
def no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "workshop")
    monkeypatch.delattr(socket, "getaddrinfo")


HERE = ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "localhost", "qwen.localhost", "Workshop.", "workshop"]
ELSEWHERE = ["192.0.2.77", "2001:db8::77", "8.8.8.8", "gpu-box", "workshop.example"]


@pytest.mark.usefixtures("no_look_up")
@pytest.mark.parametrize(
    ("host", "expected"), [*((host, True) for host in HERE), *((host, False) for host in ELSEWHERE)]
)
def test_whether_a_host_is_this_machine(host: str, *, expected: bool) -> None:
    """Unspecified addresses reach this machine as loopback ones do; no name is looked up."""
    assert is_here(host) is expected


def test_an_address_of_a_network_interface_is_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its interface, the kernel says so; if it reaches the address from another one, it is elsewhere."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("192.0.2.5", 40_000))

    assert is_here("192.0.2.5")
    assert not is_here("192.0.2.6")


def test_a_machine_knows_its_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's names are its host name and the hosts-file lines that contain it, without DNS."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Workshop.")
    monkeypatch.delattr(socket, "getaddrinfo")
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost ads.evil.example\n0.0.0.0 tracker.example # workshop\n"
        "127.0.1.1 workshop.Home.example workshop\n\nbroken\n"
    )

    assert own_names(hosts) == {"workshop", "workshop.home.example"}
    assert own_names(tmp_path / "missing") == {"workshop"}


def test_the_address_of_a_model_server_is_no_name_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if somebody appended it to the line with the host name: hotseat's dashboard must not answer there."""
    monkeypatch.setattr(socket, "gethostname", lambda: "workshop")
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.1.1 workshop Qwen.localhost localhost gemma.localhost.\n")

    assert own_names(hosts) == {"workshop", "localhost"}


@pytest.mark.parametrize("name", ["localhost", ""])
def test_a_machine_without_a_name_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """If the host name is localhost or empty, no name of the hosts file is accepted."""
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost ads.evil.example\n")

    assert own_names(hosts) == set()
