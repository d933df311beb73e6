"""The talk with systemd, with a datagram socket and a listener of the test's own in its place."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.client import PATIENCE_S
from tests.support.hotseat import PROGRAM
from tests.support.processes import all_pids, environment
from tests.support.waiting import eventually

from hotseat.cli.client import Server
from hotseat.daemon.systemd import Systemd, handed_sockets, most_exposed
from hotseat.model_servers.descendants import start_of
from hotseat.model_servers.os_processes import MARKER, children
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIG = "models: {sleeper: {cmd: 'sleep ${PORT}'}}\nlimits: {idleTimeout: 10m}\n"
"""An idle client keeps its connection, however slow the machine is."""
# Only the process itself knows its number; the shell becomes the program.
HANDING = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&"$FD"'
READY = b"READY=1\nSTATUS=serving 1 models"


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.settimeout(PATIENCE_S)
        yield ear


@contextmanager
def serving(folder: Path, listener: socket.socket, **env: str) -> Iterator[subprocess.Popen[str]]:
    """hotseat, started with a listener as systemd hands one over."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    argv = ["bash", "-c", HANDING, "bash", str(PROGRAM), "serve", "--config", str(config)]
    fd, ours = listener.fileno(), {"HOTSEAT_TEST_RUN": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    with subprocess.Popen(
        argv,
        env={**os.environ, "FD": str(fd), **ours, **env},
        pass_fds=[fd],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        try:
            yield server
        finally:
            server.kill()
            end_marked(f"HOTSEAT_TEST_RUN={folder}".encode())


def end_marked(mark: bytes) -> None:
    """Also a process that replaced the first one, and is no child of it."""
    for pid in [pid for pid in all_pids() if mark in environment(pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_systemd_is_notified_of_start_watchdog_and_stop(tmp_path: Path, ear: socket.socket) -> None:
    """Ready once the socket that was handed over is answered, alive while the loop turns, then stopping."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        messages = []
        with serving(tmp_path, listener, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000") as server:
            while READY not in messages:
                messages.append(ear.recv(4096))
            ready = Server(f"http://127.0.0.1:{port}").ask("GET", "/hotseat/ready")
            server.send_signal(signal.SIGTERM)
            while not messages[-1].startswith(b"STOPPING"):
                messages.append(ear.recv(4096))
            code = server.wait(PATIENCE_S)

    assert ready["status"] == "ok"
    assert messages.count(b"WATCHDOG=1") >= 2
    assert code == 0


def test_systemd_follows_a_restart(tmp_path: Path, ear: socket.socket) -> None:
    """The old process names the new one before that speaks, since systemd would refuse its messages. The new one is not
    a child of the old: systemd waits for its own children only."""
    address = str(tmp_path / "notify")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket() as client,
        serving(tmp_path, listener, NOTIFY_SOCKET=address, WATCHDOG_USEC="600000000") as server,
    ):
        of_old = {ear.recv(4096), ear.recv(4096)}
        client.connect(listener.getsockname())
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(4096)
        server.send_signal(signal.SIGUSR2)
        named, *of_new = [ear.recv(4096) for _ in range(3)]
        new = int(named.split()[0].removeprefix(b"MAINPID="))
        is_child, still_runs = new in children(server.pid), server.poll() is None
        server.send_signal(signal.SIGTERM)  # passed on, although it is no child
        code = server.wait(PATIENCE_S)

    assert named == b"MAINPID=%d\nWATCHDOG=1" % new
    assert {*of_new} == of_old == {b"WATCHDOG=1", READY}
    assert (is_child, still_runs, code) == (False, True, 0)
    eventually(lambda: start_of(new) is None)


@pytest.mark.anyio
async def test_the_process_that_was_replaced_is_silent(tmp_path: Path, ear: socket.socket) -> None:
    """systemd would log each of its messages as refused."""
    systemd = Systemd({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"})
    petting = Tasks().start(systemd.pet_watchdog(), "watchdog")
    first = await asyncio.to_thread(ear.recv, 100)
    systemd.follow(4711)
    await petting
    ear.setblocking(False)
    rest = []
    with suppress(BlockingIOError):
        while True:
            rest.append(ear.recv(100))

    assert first == b"WATCHDOG=1"
    assert rest[-1] == b"MAINPID=4711\nWATCHDOG=1"


def test_model_servers_do_not_inherit_systemds_variables(tmp_path: Path, ear: socket.socket) -> None:
    """Neither the address of systemd nor the sockets are theirs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with serving(tmp_path, listener, NOTIFY_SOCKET=str(tmp_path / "notify")) as server:
            ear.recv(4096)
            loading = subprocess.Popen([PROGRAM, "load", "sleeper", "--url", url], stderr=subprocess.DEVNULL)
            eventually(lambda: of_model_servers(tmp_path))
            seen = of_model_servers(tmp_path)
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE_S)
            loading.wait(PATIENCE_S)

    assert seen
    assert not any(name in env for env in seen for name in (b"NOTIFY_SOCKET", b"LISTEN_FDS", b"LISTEN_PID"))


def of_model_servers(folder: Path) -> list[bytes]:
    """The environments of the processes that this run has started for models."""
    mark = f"HOTSEAT_TEST_RUN={folder}".encode()
    return [env for pid in all_pids() if mark in (env := environment(pid)) and MARKER.encode() in env]


def test_an_open_socket_is_judged_like_an_open_address(tmp_path: Path) -> None:
    """What the configuration says of listen does not matter then."""
    with socket.create_server(("0.0.0.0", 0)) as listener, serving(tmp_path, listener) as server:
        code = server.wait(PATIENCE_S)
        assert server.stdout
        said = server.stdout.read()

    assert code == 3
    assert "can be reached from other machines and no apiKeys are configured" in said


def test_a_socket_that_is_not_tcp_is_refused(tmp_path: Path) -> None:
    """With the line of the unit to correct."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "unix"))
        with serving(tmp_path, listener) as server:
            code = server.wait(PATIENCE_S)
            assert server.stdout
            said = server.stdout.read()

    assert code == 3
    assert "is not a TCP socket; correct ListenStream=" in said


def test_sockets_of_somebody_else_are_left_alone() -> None:
    """They are for another process id; programs started by hotseat do not see them."""
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "HOME": "/"}

    assert handed_sockets(environ) == []
    assert environ == {"HOME": "/"}


def test_an_abstract_address_is_reached() -> None:
    """systemd writes it with an @."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(f"\0hotseat-test-{os.getpid()}")
        Systemd({"NOTIFY_SOCKET": f"@hotseat-test-{os.getpid()}"}).notify("READY=1")
        ear.settimeout(PATIENCE_S)

        assert ear.recv(100) == b"READY=1"


def test_where_nobody_listens_nothing_is_said(tmp_path: Path) -> None:
    """Neither without systemd nor when its socket is gone."""
    Systemd({}).notify("READY=1")
    Systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}).notify("READY=1")

    assert not list(tmp_path.iterdir())


def test_of_several_sockets_the_open_one_counts() -> None:
    """One open address makes it reachable."""
    with socket.create_server(("127.0.0.1", 0)) as inner, socket.create_server(("0.0.0.0", 0)) as outer:
        assert most_exposed([inner, outer]) == outer.getsockname()
        assert most_exposed([inner]) == inner.getsockname()
