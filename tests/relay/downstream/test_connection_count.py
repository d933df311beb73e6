"""Connections are counted when they are accepted, by their real address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.support.certificate import CERTIFICATE
from tests.support.relay_rig import HELLO, chat, get
from tests.support.transport import DEADLINE_S, End, within
from tests.support.waiting import come_true

from hotseat.net.listeners import bound, tls_context
from hotseat.relay.access.authority import host_of
from hotseat.relay.access.policy import Policy
from hotseat.relay.downstream.limits import MOST_BEYOND, ConnectionCount
from hotseat.settings import Access, ApiKey, Limits, Role, Settings, TlsFiles

if TYPE_CHECKING:
    from pathlib import Path

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

SILENT = 300
UNKNOWN = get("/x?model=nobody")


async def tls_port(rig: RelayRig, folder: Path) -> int:
    file = folder / "certificate.pem"
    file.write_text(CERTIFICATE)
    (listener,) = bound(("127.0.0.1", 0))
    await rig.relay.listen([listener], tls_context(TlsFiles(file)))
    return int(listener.getsockname()[1])


async def connected(port: int, folder: Path, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    trusting = ssl.create_default_context(cafile=str(folder / "certificate.pem"))
    return await asyncio.open_connection(
        "127.0.0.1", port, ssl=trusting, server_hostname="localhost", local_addr=(source, 0)
    )


async def test_connections_without_a_handshake_count(open_rig: OpenRig, tmp_path: Path) -> None:
    """Silent TLS connections count towards the address limit and do not block others."""
    rig = await open_rig(limits=Limits(per_address=50, header_timeout_s=60.0))
    port = await tls_port(rig, tmp_path)
    with ExitStack() as silent:
        for _ in range(SILENT):
            silent.enter_context(socket.create_connection(("127.0.0.1", port)))
        await come_true(lambda: rig.relay.connections.count.total == 50)
        reader, writer = await connected(port, tmp_path, "127.0.0.2")
        writer.write(chat())
        await (await rig.alpha.call()).say(HELLO)
        await within(DEADLINE_S, reader.readuntil(b"hello"))
        assert rig.relay.connections.count.total == 51
        writer.close()
    await come_true(lambda: rig.relay.connections.count.total == 0)


async def test_a_connection_without_a_handshake_ends(open_rig: OpenRig, tmp_path: Path) -> None:
    """A TLS connection whose client stays silent is closed after the time for a head, and its place is free."""
    rig = await open_rig(limits=Limits(header_timeout_s=0.2))
    rig.port = await tls_port(rig, tmp_path)
    client = await rig.client()

    assert await client.end() in End
    await come_true(lambda: rig.relay.connections.count.total == 0)


async def test_a_handshake_that_fails_gives_its_place_back(open_rig: OpenRig, tmp_path: Path) -> None:
    """A failed handshake and a client that disconnects during it free their places."""
    rig = await open_rig()
    port = await tls_port(rig, tmp_path)
    with socket.create_connection(("127.0.0.1", port)) as client:
        await come_true(lambda: rig.relay.connections.count.total == 1)
        client.sendall(UNKNOWN)
        await come_true(lambda: rig.relay.connections.count.total == 0)
    with socket.create_connection(("127.0.0.1", port)):
        await come_true(lambda: rig.relay.connections.count.total == 1)
    await come_true(lambda: rig.relay.connections.count.total == 0)

    assert len(rig.relay.connections.open) == 0


async def test_the_last_place_can_be_had_with_tls(open_rig: OpenRig, tmp_path: Path) -> None:
    """With a limit of one connection a TLS client is served, so it is not counted twice."""
    rig = await open_rig(limits=Limits(connections=1))
    port = await tls_port(rig, tmp_path)
    for _ in range(3):
        reader, writer = await connected(port, tmp_path, "127.0.0.1")
        writer.write(UNKNOWN)
        assert await within(DEADLINE_S, reader.readuntil(b" ")) == b"HTTP/1.1 "
        assert await within(DEADLINE_S, reader.readuntil(b" ")) == b"404 "
        writer.close()
        await come_true(lambda: rig.relay.connections.count.total == 0)


async def test_an_operator_is_served_beyond_the_last_place_with_tls(open_rig: OpenRig, tmp_path: Path) -> None:
    """The handshake is made, and the request says who it is; without a handshake it ends soon."""
    keys = (ApiKey("lows", Role.INFERENCE), ApiKey("opss", Role.OPERATE))
    rig = await open_rig(limits=Limits(per_address=1), access=Access(api_keys=keys))
    port = await tls_port(rig, tmp_path)
    taken = await rig.client()
    with socket.create_connection(("127.0.0.1", port)):
        await come_true(lambda: rig.relay.connections.count.total == 2)
        await come_true(lambda: rig.relay.connections.count.total == 1)
    answers = []
    for request in (chat("alpha", "x-api-key: lows"), get("/hotseat/x?model=nobody", "x-api-key: opss")):
        reader, writer = await connected(port, tmp_path, "127.0.0.1")
        writer.write(request)
        if b"opss" in request:
            await (await rig.management.call()).say(HELLO)
        answers.append(await within(DEADLINE_S, reader.readuntil(b"\r\n")))
        writer.close()
    taken.hang_up()

    assert [answer[9:12] for answer in answers] == [b"429", b"200"]


async def test_a_listener_for_tls_is_closed_with_the_others(open_rig: OpenRig, tmp_path: Path) -> None:
    """After a drain the TLS port is closed."""
    rig = await open_rig()
    port = await tls_port(rig, tmp_path)
    await rig.relay.drain(within=0)

    await come_true(lambda: not is_open(port))


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def test_far_too_many_connections_are_closed_without_a_word(open_rig: OpenRig) -> None:
    """Connections a little beyond the limit get 429; further ones are reset without a response."""
    rig = await open_rig(limits=Limits(per_address=1))
    refused = [await rig.client() for _ in range(1 + MOST_BEYOND)]
    await come_true(lambda: rig.relay.connections.count.total == 1 + MOST_BEYOND)
    untold = await rig.client()
    await refused[-1].send(chat())

    assert await untold.end() is End.RESET
    assert untold.unread == b""
    assert (await refused[-1].message()).status == 429


@pytest.mark.parametrize(("fits", "bounds"), [(None, (100, 60)), (100, (100, 60)), (80, (80, 40)), (1, (1, 1))])
def test_limits_are_fitted_to_the_descriptors(fits: int | None, bounds: tuple[int, int]) -> None:
    """The limits are lowered to what descriptors allow, and half of that per address."""
    assert ConnectionCount(fits).bounds(Limits(connections=100, per_address=60)) == bounds


@pytest.mark.parametrize(
    ("name", "host"),
    [
        (("10.0.0.1", 80), "10.0.0.1"),
        (("::ffff:10.0.0.1", 80, 0, 0), "10.0.0.1"),
        (("::1", 80, 0, 0), "::1"),
        (("::ffff:a00:1", 80, 0, 0), "::ffff:a00:1"),
        (("2001:db8::ffff:10.0.0.1", 80, 0, 0), "2001:db8::ffff:10.0.0.1"),
        ("", "local"),
        (None, "local"),
    ],
)
def test_a_mapped_address_is_the_address_it_stands_for(name: object, host: str) -> None:
    """An IPv4-mapped IPv6 address is shown as IPv4."""
    assert host_of(name) == host


@pytest.mark.parametrize("entry", ["10.0.0.0/8", "::ffff:10.0.0.0/104"])
def test_a_network_is_trusted_however_it_is_written(entry: str) -> None:
    """A trusted network may be written as IPv4 or as mapped IPv6; a unix socket is not trusted."""
    rules = Policy(Settings(access=Access(trusted_proxies=(entry,))))

    assert [rules.trusts(peer) for peer in ("10.0.0.1", "11.0.0.1", "::1", "local")] == [True, False, False, False]


async def test_one_address_is_one_whichever_family_it_comes_by(open_rig: OpenRig) -> None:
    """A client counts as one address on an IPv4 socket and on a dual-stack socket."""
    rig = await open_rig(limits=Limits(per_address=1))
    both = socket.socket(socket.AF_INET6)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    both.bind(("::", 0))
    both.listen()
    await rig.relay.listen([both])
    first = await rig.send(UNKNOWN)
    await first.message()
    rig.port = both.getsockname()[1]

    assert (await (await rig.send(chat())).message()).status == 429
