"""Websockets through the relay, against a real websocket server and a real client."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import get
from tests.support.transport import DEADLINE_S, End, within
from tests.support.waiting import come_true
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from hotseat.identifiers import Address, ModelName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from websockets.asyncio.client import ClientConnection
    from websockets.asyncio.server import Server
    from websockets.http11 import Request, Response

LARGE = 3_000_000


class EchoServer:
    """A websocket server that echoes, and remembers how its connections ended."""

    def __init__(self) -> None:
        self.connections: list[ServerConnection] = []
        self.ended = 0

    async def echo(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            async for said in connection:
                await connection.send(said)
        except ConnectionClosedError:
            pass
        finally:
            self.ended += 1

    def refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(418, "no echo here\n") if request.path.startswith("/refused") else None


@asynccontextmanager
async def echo_server_for(rig: RelayRig) -> AsyncIterator[EchoServer]:
    """Alpha is an echo server."""
    echo = EchoServer()
    server: Server
    async with serve(echo.echo, "127.0.0.1", 0, process_request=echo.refuse, max_size=2 * LARGE) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        rig.launcher.addresses["alpha"] = Address("127.0.0.1", port)
        yield echo


def connected(rig: RelayRig, path: str = "/echo", **options: str) -> connect:
    url = f"ws://127.0.0.1:{rig.port}{path}?model=alpha"
    return connect(url, max_size=2 * LARGE, open_timeout=DEADLINE_S, close_timeout=DEADLINE_S, **options)  # type: ignore[arg-type]  # all of them are texts


def in_flight(rig: RelayRig) -> int:
    return sum(model.in_flight for model in rig.dispatcher.views.current().models)


async def test_words_go_both_ways(rig: RelayRig) -> None:
    """Text and binary messages are echoed unchanged and in order."""
    async with echo_server_for(rig), connected(rig) as client:
        replies = [await said_back(client, said) for said in ("hello", b"\x00\x01", "ü" * 1000)]

    assert replies == ["hello", b"\x00\x01", "ü" * 1000]


async def said_back(client: ClientConnection, said: str | bytes) -> str | bytes:
    await client.send(said)
    return await within(DEADLINE_S, client.recv())


async def test_large_words_go_both_ways(rig: RelayRig) -> None:
    """A message larger than all buffers is echoed complete."""
    async with echo_server_for(rig), connected(rig) as client:
        replies = await said_back(client, b"x" * LARGE)

    assert replies == b"x" * LARGE


async def test_the_lease_lasts_as_long_as_the_websocket(rig: RelayRig) -> None:
    """An open websocket holds a lease, which is released when it closes."""
    async with echo_server_for(rig):
        async with connected(rig):
            during = in_flight(rig)
        await come_true(lambda: in_flight(rig) == 0)

    assert during == 1


async def test_a_close_reaches_the_client_with_its_reason(rig: RelayRig) -> None:
    """The server's close code and reason reach the client."""
    async with echo_server_for(rig) as echo, connected(rig) as client:
        await echo.connections[0].close(4000, "enough")
        with pytest.raises(ConnectionClosedError) as closed:
            await within(DEADLINE_S, client.recv())

    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4000, "enough")


async def test_a_clean_close_by_the_client_reaches_the_server(rig: RelayRig) -> None:
    """The server sees a clean close by the client."""
    async with echo_server_for(rig) as echo:
        async with connected(rig) as client:
            await said_back(client, "hello")
        await come_true(lambda: echo.ended == 1)

        with pytest.raises(ConnectionClosedOK):
            await echo.connections[0].recv()


async def test_a_client_that_vanishes_is_noticed(rig: RelayRig) -> None:
    """If the client aborts, the server's side ends and the lease is released."""
    async with echo_server_for(rig) as echo, connected(rig) as client:
        client.transport.abort()
        await come_true(lambda: echo.ended == 1)
        await come_true(lambda: in_flight(rig) == 0)


async def test_a_server_that_vanishes_is_noticed(rig: RelayRig) -> None:
    """If the server aborts, the client sees an unclean close."""
    async with echo_server_for(rig) as echo, connected(rig) as client:
        echo.connections[0].transport.abort()
        with pytest.raises(ConnectionClosedError):
            await within(DEADLINE_S, client.recv())


async def test_a_refused_handshake_is_an_ordinary_answer(rig: RelayRig) -> None:
    """The server's own status and body are relayed."""
    async with echo_server_for(rig):
        with pytest.raises(InvalidStatus) as refused:
            await connected(rig, "/refused")

    assert refused.value.response.status_code == 418
    assert refused.value.response.body == b"no echo here\n"


async def test_a_page_of_another_site_gets_no_websocket(rig: RelayRig) -> None:
    """A handshake from a foreign origin gets 403 and does not reach the server."""
    async with echo_server_for(rig) as echo:
        with pytest.raises(InvalidStatus) as refused:
            await connected(rig, origin="https://evil.example")

    assert refused.value.response.status_code == 403
    assert echo.connections == []


async def test_a_silent_websocket_ends(rig: RelayRig) -> None:
    """A websocket without data for idleTimeout is closed on both sides."""
    async with echo_server_for(rig) as echo, connected(rig) as client:
        await rig.later(61)
        with pytest.raises(ConnectionClosedError):
            await within(DEADLINE_S, client.recv())
        await come_true(lambda: echo.ended == 1)


async def test_a_websocket_that_falls_silent_after_a_pause_ends(open_rig: OpenRig) -> None:
    """idleTimeout also applies after the client was slow for a moment."""
    rig = await open_rig(send_buffer=16 << 10)
    client = await rig.client(receive_buffer=16 << 10)
    await client.send(get("/echo?model=alpha", "Connection: Upgrade", "Upgrade: websocket"))
    call = await rig.alpha.call()
    await call.say(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    await client.read_until(b"\r\n\r\n")
    await call.say(b"x" * 300_000)
    await client.read_exactly(300_000)
    await rig.later(61)

    assert await client.end() is End.RESET
    await come_true(lambda: in_flight(rig) == 0)


async def test_a_stopped_model_ends_its_websockets(rig: RelayRig) -> None:
    """A forced unload closes websockets uncleanly."""
    async with echo_server_for(rig), connected(rig) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(rig.dispatcher.operator.unload(ModelName("alpha"), force=True))
        with pytest.raises(ConnectionClosedError):
            await within(DEADLINE_S, client.recv())


async def test_another_protocol_than_websocket_is_not_offered_upstream(rig: RelayRig) -> None:
    """Another Upgrade is removed, and the request is served as plain HTTP."""
    asked, answered = await rig.exchange(get("/echo?model=alpha", "Connection: Upgrade", "Upgrade: quux"))

    assert asked.all("Upgrade") == []
    assert answered.status == 200


async def test_a_websocket_that_does_not_count(open_rig: OpenRig) -> None:
    """With compat.ignoreWebsockets a websocket does not start the model and holds no lease."""
    rig = await open_rig(models=(spec("alpha", ignore_websockets=True),))
    async with echo_server_for(rig):
        with pytest.raises(InvalidStatus) as refused:
            async with connected(rig):
                pass
        cold = rig.phase("alpha")
        await rig.dispatcher.operator.load(ModelName("alpha"))
        async with connected(rig) as client:
            replies, during = await said_back(client, "hello"), in_flight(rig)

    assert (refused.value.response.status_code, cold) == (409, "cold")
    assert (replies, during) == ("hello", 0)
