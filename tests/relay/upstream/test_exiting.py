"""Servers that are killed during a response that ends with its connection, or as a request arrives."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat
from tests.support.waiting import come_true

from hotseat.identifiers import Address
from hotseat.model_servers.ports import listener_of
from hotseat.relay.upstream.kernel import is_dying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.relay_rig import RelayRig

SERVER = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
HOLDING = SERVER + "kept = s.accept()[0]; kept.send(b'x'); time.sleep(60)"


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", HOLDING], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_killed_server_is_seen_dying_as_soon_as_its_connection_ends(server: subprocess.Popen[str]) -> None:
    """A killed process is seen as dying as soon as its connection ends."""
    assert server.stdout is not None
    with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as connection:
        assert connection.recv(1) == b"x"
        assert not is_dying(server.pid)
        server.send_signal(signal.SIGKILL)
        assert connection.recv(1) == b""

        assert is_dying(server.pid)


def test_a_process_that_is_gone_is_dying(server: subprocess.Popen[str]) -> None:
    """A process that no longer exists counts as dying."""
    server.kill()
    server.wait()

    assert is_dying(server.pid)


def test_we_are_alive() -> None:
    """The current process does not count as dying."""
    assert not is_dying(os.getpid())


def test_who_cannot_look_does_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process cannot be inspected, it does not count as dying."""

    def no_descriptor(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("builtins.open", no_descriptor)

    assert not is_dying(os.getpid())


def die(server: subprocess.Popen[str]) -> None:
    """At its end, not yet collected: what the kernel still keeps open of it is the test's."""
    server.kill()
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)


def replace_server(rig: RelayRig) -> None:
    """The exit is noticed, and the next server runs."""
    del rig.launcher.pids["alpha"]
    rig.launcher.crash("alpha", "killed by signal 9")


async def test_a_connection_that_a_dying_server_still_takes_gets_no_request(
    rig: RelayRig, server: subprocess.Popen[str]
) -> None:
    """A connection to a dying server gets no request; the next server serves it."""
    rig.launcher.pids["alpha"] = server.pid
    die(server)
    client = await rig.send(chat())
    await come_true(lambda: bool(rig.alpha.lines))
    await rig.alpha.lines[0].ended()
    replace_server(rig)
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message()).status == 200
    assert rig.alpha.requests == 1


async def test_when_one_connection_shows_that_a_server_dies_the_idle_ones_are_left_alone(
    rig: RelayRig, server: subprocess.Popen[str]
) -> None:
    """When one connection shows that a server died, its idle connections are not used for requests."""
    rig.launcher.pids["alpha"] = server.pid
    (one, first), (other, second) = await rig.reached(chat()), await rig.reached(chat())
    for client, call in ((one, first), (other, second)):
        await call.say(HELLO)
        await client.message()
    die(server)
    await one.send(chat())
    lost = await rig.alpha.call()
    lost.hang_up()
    assert (await one.message()).status == 502
    idle = first.line if lost.line is second.line else second.line
    await idle.ended()
    await one.send(chat())
    await come_true(lambda: len(rig.alpha.lines) == 3)
    replace_server(rig)
    await (await rig.alpha.call()).say(HELLO)

    assert (await one.message()).status == 200


ANSWERING = """\
kept = s.accept()[0]
kept.recv(65536)
kept.send(b"HTTP/1.1 200 OK\\r\\n\\r\\nhello")
input()
kept.close()
time.sleep(60)
"""
"""It ends its response with its connection when it reads a line."""
ALONE = (sys.executable, "-I", "-S", "-c", SERVER + ANSWERING)
STARTED_BY = {"hotseat": ALONE, "a script": ("sh", "-c", '"$@"; true', "sh", *ALONE)}


@pytest.fixture
def answering(started_by: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen(STARTED_BY[started_by], stdin=pipe, stdout=pipe, text=True, start_new_session=True) as leader:
        yield leader
        os.killpg(leader.pid, signal.SIGKILL)


@pytest.mark.parametrize("started_by", STARTED_BY)
@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_response_that_ends_with_its_connection(
    rig: RelayRig, answering: subprocess.Popen[str], started_by: str, is_killed: bool
) -> None:
    """It is cut visibly if its server was killed, and complete if the server closed the connection."""
    assert answering.stdin is not None
    assert answering.stdout is not None
    address = Address("127.0.0.1", int(answering.stdout.readline()))
    listener, _ = listener_of(address, answering.pid, "")
    assert listener is not None
    rig.launcher.addresses["alpha"] = address
    rig.launcher.pids["alpha"], rig.launcher.listeners["alpha"] = answering.pid, listener
    client = await rig.send(chat())
    await client.read_until(b"hello\r\n")
    if is_killed:
        os.kill(listener, signal.SIGKILL)
        assert await client.read_to_end() == b""
    else:
        answering.stdin.write("\n")
        answering.stdin.flush()
        assert await client.read_until(b"\r\n\r\n") == b"0\r\n\r\n"

    assert (listener == answering.pid) is (started_by == "hotseat")
