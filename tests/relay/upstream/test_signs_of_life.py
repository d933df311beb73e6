"""The last data from a model server, for the check whether it still works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.host_headers import SECRET
from tests.support.relay_rig import HELLO, chat, get
from tests.support.scripted_upstream import on_a_port
from tests.support.waiting import come_true

from hotseat.fleet.proofs import FleetSecret, Signer
from hotseat.fleet.route import OtherHost
from hotseat.identifiers import HostName, ModelName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import ScriptedUpstream

    from hotseat.fleet.route import Route

ALPHA = ModelName("alpha")
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\nhello"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
WEBSOCKET = get("/echo?model=alpha", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")


def pieces(rig: RelayRig) -> list[object]:
    return rig.relay.connections.last_pieces(ALPHA)


async def test_each_piece_of_an_answer_is_a_sign(rig: RelayRig) -> None:
    """The last piece of a response is reported for its model only."""
    _, call = await rig.reached(chat("alpha"))
    assert pieces(rig) == []
    await call.say(HALF)
    await come_true(lambda: pieces(rig) == [b"hello"])
    await call.say(b"again")

    await come_true(lambda: pieces(rig) == [b"again"])
    assert rig.relay.connections.last_pieces(ModelName("beta")) == []


async def test_what_comes_through_a_websocket_is_a_sign(rig: RelayRig) -> None:
    """The last data of a websocket is reported."""
    _, call = await rig.reached(WEBSOCKET)
    await call.say(SWITCHED)
    await call.say(b"one")
    await come_true(lambda: pieces(rig) == [b"one"])
    await call.say(b"two")

    await come_true(lambda: pieces(rig) == [b"two"])


async def test_a_server_is_not_silent_while_nobody_reads_what_it_says(rig: RelayRig) -> None:
    """While the client does not read, the server counts as active at each check."""
    _, call = await rig.reached(chat("alpha"))
    await call.say(HALF)
    await come_true(lambda: pieces(rig) == [b"hello"])
    [before], [same] = pieces(rig), pieces(rig)
    client = rig.connection()
    client.pause_writing()
    [held], [held_still] = pieces(rig), pieces(rig)

    assert before is same
    assert before is not held is not held_still


class OneHost:
    """A fleet that sends every request to one other host."""

    name = HostName("here")
    signer = Signer(FleetSecret([SECRET]))

    def __init__(self, where: Route) -> None:
        self._where = where

    def select(self, *_: object) -> Route:
        return self._where

    def sent(self, *_: object) -> None: ...
    def came_back(self, *_: object) -> None: ...


@pytest.fixture
async def other() -> AsyncIterator[ScriptedUpstream]:
    server = on_a_port()
    yield server
    await server.aclose()


async def test_the_server_of_another_host_says_nothing_of_ours(rig: RelayRig, other: ScriptedUpstream) -> None:
    """Data from another host's server is not reported for the local one."""
    rig.relay.context.hosts = OneHost(OtherHost(HostName("there"), other.address))  # type: ignore[assignment]  # all it is asked
    client = await rig.send(chat("alpha"))
    call = await other.call()
    await call.say(HELLO[:-1])
    await client.read_until(b"hell")

    assert pieces(rig) == []
    await call.say(HELLO[-1:])
