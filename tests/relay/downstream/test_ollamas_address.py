"""The second listener, for clients that expect Ollama there."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get
from tests.support.transport import Wire

from hotseat.relay.access.policy import Policy
from hotseat.settings import Access, ApiKey, Role, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Message

RUNS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 17\r\n\r\nOllama is running"
BROWSER = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: text/html")


async def client_of_ollama(rig: RelayRig) -> Wire:
    """A connection to a second listener, which is opened for it."""
    sock = socket.create_server(("127.0.0.1", 0))
    await rig.relay.listen_as_ollama([sock])
    client = Wire(socket.socket())
    rig.clients.append(client)
    await asyncio.get_running_loop().sock_connect(client.sock, sock.getsockname())
    return client


async def answered(rig: RelayRig, client: Wire, request: bytes, says: bytes = RUNS) -> tuple[str, Message]:
    """What the management API was asked, and what the client got."""
    await client.send(request)
    call = await rig.management.call()
    await call.say(says)
    return call.request.first_line, await client.message(to=request.partition(b" ")[0].decode())


@pytest.mark.parametrize("fields", [(), BROWSER])
async def test_its_bare_address_says_that_ollama_runs(rig: RelayRig, fields: tuple[str, ...]) -> None:
    """Programs and people look there; hotseat's own address gives browsers the dashboard."""
    asked, answer = await answered(rig, await client_of_ollama(rig), get("/", *fields))

    assert asked == "GET /api HTTP/1.1"
    assert answer.body == b"Ollama is running"


async def test_head_of_its_bare_address(rig: RelayRig) -> None:
    """Ollama's own command line sends this before anything else."""
    head = RUNS.removesuffix(b"Ollama is running")
    asked, answer = await answered(rig, await client_of_ollama(rig), get("/", method="HEAD"), head)

    assert (asked, answer.status, answer.body) == ("HEAD /api HTTP/1.1", 200, b"")


async def test_models_are_used_there_as_elsewhere(rig: RelayRig) -> None:
    """The same request on both listeners reaches the same model."""
    client = await client_of_ollama(rig)
    await client.send(chat())
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"


async def test_it_is_plain_http_beside_https(rig: RelayRig) -> None:
    """Model servers learn how the client really came."""
    rig.relay.context.scheme = b"https"
    client = await client_of_ollama(rig)
    await client.send(chat())
    call = await rig.alpha.call()
    await call.say(HELLO)
    await client.message()

    assert call.request["X-Forwarded-Proto"] == "http"


async def test_the_other_listener_does_not_say_so(rig: RelayRig) -> None:
    """What one listener has learned about a head does not count for the other."""
    await answered(rig, await client_of_ollama(rig), get("/"))
    asked, _ = await answered(rig, await rig.client(), get("/"))

    assert asked == "GET /idle HTTP/1.1"


async def test_keys_count_there_too(open_rig: OpenRig) -> None:
    """The lowest role may ask whether Ollama runs; without a key, nobody may."""
    key = ApiKey("sesame-and-more", Role.INFERENCE)
    rig = await open_rig(access=Access(api_keys=(key,)))
    client = await client_of_ollama(rig)
    await client.send(get("/"))
    without = await client.message()
    _, with_key = await answered(rig, client, get("/", "Authorization: Bearer sesame-and-more"))

    assert (without.status, with_key.status) == (401, 200)


async def test_a_foreign_page_is_refused_there_too(rig: RelayRig) -> None:
    """No page learns what runs on this machine."""
    client = await client_of_ollama(rig)
    await client.send(get("/", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"))

    assert (await client.message()).status == 403


async def test_a_reload_changes_the_rules_of_both(rig: RelayRig) -> None:
    """And the bare address says the same as before."""
    client = await client_of_ollama(rig)
    key = ApiKey("sesame-and-more", Role.INFERENCE)
    rig.relay.change_policy(Policy(Settings(access=Access(api_keys=(key,)))))
    await client.send(get("/"))
    without = await client.message()
    asked, _ = await answered(rig, client, get("/", "Authorization: Bearer sesame-and-more"))

    assert without.status == 401
    assert asked == "GET /api HTTP/1.1"


async def test_a_shutdown_ends_both(rig: RelayRig) -> None:
    """An idle connection is closed, and no new one is accepted."""
    client = await client_of_ollama(rig)
    await answered(rig, client, get("/"))
    await rig.relay.drain(within=5)

    assert await client.read_to_end() == b""


OWN = {"scheme", "policy", "heads"}
"""What the two addresses do not share."""


async def test_everything_that_changes_later_is_known_at_both_addresses(rig: RelayRig) -> None:
    """A fleet that is joined late, the other process's API, the end of the service: one object has each of them."""
    shared = rig.relay.context
    at_ollamas = shared.at_ollamas_address()
    found = {name: value for name, value in vars(shared).items() if name not in OWN}
    for name in found:
        setattr(shared, name, later := object())

        assert getattr(at_ollamas, name) is later, name
        setattr(shared, name, found[name])
    assert len(found) >= 15
