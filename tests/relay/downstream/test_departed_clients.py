"""Clients that disconnect while nothing is read from them: their places are free again at once."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.relay_rig import HELLO, chat, get
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.net.listeners import tls_context
from hotseat.relay.downstream.request_reader import LOST, MOST_AHEAD
from hotseat.settings import TlsFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

DEPARTED = 600
"""More than may wait."""
SOON_S = 30.0
"""It takes milliseconds; whoever is not noticed stays for a minute at least."""
WEBSOCKET = get("/echo?model=alpha", "Connection: Upgrade", "Upgrade: websocket")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
TOO_MUCH = b"a" * (MOST_AHEAD + 10_000)


class ClientPort:
    """Where clients of one kind connect; they block, so they live in a thread of their own."""

    def __init__(self, port: int, trusting: ssl.SSLContext | None) -> None:
        self._port = port
        self._trusting = trusting

    def ask(self, request: bytes) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self._port), timeout=SOON_S)
        if self._trusting is not None:
            sock = self._trusting.wrap_socket(sock, server_hostname="localhost")
        sock.sendall(request)
        return sock


@pytest.fixture(params=["plain", "tls"])
async def client_port(rig: RelayRig, tmp_path: Path, request: pytest.FixtureRequest) -> ClientPort:
    if request.param == "plain":
        return ClientPort(rig.port, None)
    file = tmp_path / "certificate.pem"
    file.write_text(CERTIFICATE)
    listener = socket.create_server(("127.0.0.1", 0))
    await rig.relay.listen([listener], tls_context(TlsFiles(file)))
    return ClientPort(listener.getsockname()[1], ssl.create_default_context(cafile=str(file)))


def leave(clients: list[socket.socket], *, behind: bytes) -> None:
    for client in clients:
        with suppress(OSError):  # those that were refused are not listened to any more
            client.sendall(behind)
        client.close()


@pytest.mark.usefixtures("many_files")
async def test_hundreds_that_sent_too_much_and_left_keep_no_place(rig: RelayRig, client_port: ClientPort) -> None:
    """Clients that sent too much and disconnected leave the queue, and later clients are served."""
    clients = await asyncio.to_thread(lambda: [client_port.ask(chat("slow")) for _ in range(DEPARTED)])
    await come_true(lambda: rig.waiting() > DEPARTED // 2)
    await asyncio.to_thread(leave, clients, behind=TOO_MUCH)

    await come_true(lambda: rig.waiting() == 0 and len(rig.relay.connections.open) == 0, SOON_S)
    rig.launcher.become_ready("slow")
    _, answered = await rig.exchange(chat())
    assert answered.status == 200


async def test_whoever_sends_too_much_behind_a_request_gets_its_answer_and_no_other(rig: RelayRig) -> None:
    """After too much pipelined data the current request is answered and the connection closes; no other is begun."""
    client, call = await rig.reached(get())
    await client.send(get() * 3000)
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert await client.end() is End.CLOSED
    assert rig.alpha.requests == 1


async def held_websocket(rig: RelayRig) -> tuple[Wire, Call, int]:
    """One whose server takes nothing more, and how much the client has sent through it."""
    client, call = await rig.reached(WEBSOCKET)
    call.line.reader.cancel()
    await call.say(SWITCHED)
    await client.read_until(SWITCHED[-4:])
    sent = 0
    while not rig.relay.connections.held:
        await client.send(b"x" * 8_000)
        await asyncio.sleep(0)  # it is read before there is more of it
        sent += 8_000
    return client, call, sent


async def test_a_client_that_leaves_a_websocket_that_is_held_is_noticed(rig: RelayRig) -> None:
    """A disconnect is noticed even while reading from the websocket is paused."""
    client, _, _ = await held_websocket(rig)
    await client.send(b"unread")
    client.hang_up()

    await come_true(lambda: rig.in_flight() == 0 and len(rig.relay.connections.open) == 0, SOON_S)


async def test_a_client_that_leaves_behind_what_nobody_takes_is_idle(rig: RelayRig) -> None:
    """A client whose FIN is stuck behind unread data is closed after idleTimeout, with its upstream."""
    client, call, sent = await held_websocket(rig)
    client.sock.send(b"x" * 20_000_000)
    client.hang_up()
    await rig.later(61)

    await come_true(lambda: rig.in_flight() == 0 and len(rig.relay.connections.open) == 0, SOON_S)
    assert len(await call.line.wire.read_to_end()) < sent


async def test_a_websocket_that_was_held_goes_on(rig: RelayRig) -> None:
    """A paused websocket continues after its disconnect check, without losing data."""
    _, call, sent = await held_websocket(rig)
    await rig.clocks_seen()

    assert await call.line.wire.read_exactly(sent) == b"x" * sent
    await come_true(lambda: not rig.relay.connections.held)


async def test_whoever_sends_too_much_before_a_websocket_begins_is_cut_off(rig: RelayRig) -> None:
    """A client that sends too much before the handshake is complete is reset."""
    client, call = await rig.reached(WEBSOCKET)
    await client.send(TOO_MUCH)

    assert await client.end() is End.RESET
    assert await call.ended() in End


async def test_a_websocket_behind_a_request_does_not_begin_with_bytes_missing(rig: RelayRig) -> None:
    """A client that sends too much behind a pipelined websocket request gets the response before it, and no tunnel."""
    client, call = await rig.reached(get("/x?model=alpha") + WEBSOCKET + b"early")
    await client.send(TOO_MUCH)
    [connection] = rig.relay.connections.open
    await come_true(lambda: connection._reader.stage is LOST)
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert await client.read_to_end() == b""
