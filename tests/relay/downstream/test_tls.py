"""The relay with TLS, used by a real TLS client."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.relay_rig import HELLO, chat
from tests.support.transport import DEADLINE_S, within
from tests.support.waiting import come_true

from hotseat.net.listeners import tls_context
from hotseat.settings import TlsFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.relay_rig import RelayRig

    from hotseat.tasks import Tasks

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "certificate.pem"
    file.write_text(CERTIFICATE)
    return file


async def connected(rig: RelayRig, certificate: Path, *protocols: str) -> Streams:
    """A TLS connection to a second listener of the relay."""
    listener = socket.create_server(("127.0.0.1", 0))
    await rig.relay.listen([listener], tls_context(TlsFiles(certificate)))
    trusting = ssl.create_default_context(cafile=str(certificate))
    trusting.set_alpn_protocols(list(protocols))
    port = listener.getsockname()[1]
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname="localhost")


async def test_requests_are_answered_one_after_another(rig: RelayRig, certificate: Path) -> None:
    """Three requests on one connection are served, and the upstream gets X-Forwarded-Proto: https."""
    reader, writer = await connected(rig, certificate)
    schemes = []
    for _ in range(3):
        writer.write(chat())
        call = await rig.alpha.call()
        schemes.append(call.request["X-Forwarded-Proto"])
        await call.say(HELLO)
        await within(DEADLINE_S, reader.readuntil(b"hello"))
    writer.close()

    assert schemes == ["https"] * 3


async def test_a_connection_that_is_not_kept_ends_cleanly(rig: RelayRig, certificate: Path) -> None:
    """With `Connection: close` the complete response arrives before the end."""
    reader, writer = await connected(rig, certificate)
    writer.write(chat("alpha", "Connection: close"))
    await (await rig.alpha.call()).say(HELLO)
    answered = await within(DEADLINE_S, reader.read())
    writer.close()

    assert answered.endswith(b"hello")


@pytest.mark.parametrize("turns", range(5))
async def test_another_process_accepts_from_now_on(rig: RelayRig, certificate: Path, tasks: Tasks, turns: int) -> None:
    """Whoever connects around this moment completes the handshake here, or waits for the other process."""
    listener = socket.create_server(("127.0.0.1", 0))
    of_the_other = listener.dup()
    await rig.relay.listen([listener], tls_context(TlsFiles(certificate)))
    clients = [socket.create_connection(of_the_other.getsockname()) for _ in range(3)]
    for _ in range(turns):
        await asyncio.sleep(0)
    finishing = tasks.start(rig.relay.finish(60, rig.relay.context.management), "finish")
    await come_true(lambda: rig.relay.context.is_draining)
    for client in set_apart(clients, of_the_other):
        trusting = ssl.create_default_context(cafile=str(certificate))
        opening = asyncio.open_connection(sock=client, ssl=trusting, server_hostname="localhost")
        _, writer = await within(DEADLINE_S, opening)
        writer.close()

    await within(DEADLINE_S, finishing)


def set_apart(clients: list[socket.socket], listener: socket.socket) -> list[socket.socket]:
    """Close those who wait at the listener, and return the others."""
    waiting = names_at(listener)
    for client in clients:
        if client.getsockname() in waiting:
            client.close()
        else:
            client.setblocking(False)
    return [client for client in clients if client.fileno() >= 0]


def names_at(listener: socket.socket) -> set[tuple[str, int]]:
    names = set()
    listener.setblocking(False)
    with listener, suppress(BlockingIOError):
        while True:
            accepted, name = listener.accept()
            accepted.close()
            names.add(name)
    return names


async def test_http_1_1_is_all_that_is_spoken(rig: RelayRig, certificate: Path) -> None:
    """ALPN selects http/1.1 although the client prefers h2."""
    _, writer = await connected(rig, certificate, "h2", "http/1.1")
    spoken = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()

    assert spoken == "http/1.1"


def test_a_certificate_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    """An invalid certificate file raises an SSLError."""
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")

    with pytest.raises(ssl.SSLError):
        tls_context(TlsFiles(nonsense))
