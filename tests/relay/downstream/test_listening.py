"""The relay listens on every address of a name."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.names import addresses_of
from tests.support.ports import free_port
from tests.support.relay_rig import HELLO, get
from tests.support.transport import Wire

from hotseat.net.listeners import bound

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig


@pytest.mark.parametrize("addresses", [("::1", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")])
async def test_every_address_of_a_name_is_answered(rig: RelayRig, addresses: tuple[str, ...]) -> None:
    """Requests are served on every address of the name, IPv4 and IPv6."""
    port = free_port()
    await rig.relay.listen(bound(("box.test", port), addresses_of(*addresses)))
    for address in addresses:
        client = await wire_to(address, port)
        await client.send(get())
        await (await rig.alpha.call()).say(HELLO)
        answered = await client.message()
        client.hang_up()

        assert answered.body == b"hello"


async def test_a_client_connects_before_the_relay_accepts(rig: RelayRig) -> None:
    """It waits and is answered; another program that wants the address is refused from the beginning."""
    sockets = bound(("127.0.0.1", 0))
    address, port = sockets[0].getsockname()
    client = await wire_to(address, port)
    await client.send(get())
    with pytest.raises(OSError, match="Address already in use"):
        bound((address, port))
    await rig.relay.listen(sockets)
    await (await rig.alpha.call()).say(HELLO)
    answered = await client.message()
    client.hang_up()

    assert answered.body == b"hello"


async def test_a_client_that_is_gone_without_a_word(rig: RelayRig) -> None:
    """The kernel asks for it after 15 s, so that its request does not keep a model that says nothing, either."""
    sockets = bound(("127.0.0.1", 0))
    await rig.relay.listen(sockets)
    client = await wire_to(*sockets[0].getsockname())
    await client.send(get())
    await (await rig.alpha.call()).say(HELLO)
    await client.message()
    [connection] = rig.relay.connections.open
    sock = connection.transport.get_extra_info("socket")
    asks, after_s = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), sock.getsockopt(6, socket.TCP_KEEPIDLE)
    client.hang_up()

    assert (asks, after_s) == (1, 15)


async def wire_to(address: str, port: int) -> Wire:
    wire = Wire(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
    await asyncio.get_running_loop().sock_connect(wire.sock, (address, port))
    return wire
