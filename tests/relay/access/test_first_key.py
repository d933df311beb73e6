"""When the first key is created or configured, requests in progress have no key: which of them finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from tests.relay.access.test_revoked_keys import ANN, LAST_CHUNK, OF_ANN, STREAM, reload
from tests.relay.downstream.test_ollamas_address import client_of_ollama
from tests.support.host_headers import SECRET, passed_on
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.waiting import come_true

from hotseat.activity.usage import Accounts
from hotseat.identifiers import HostName
from hotseat.relay.access.policy import Policy
from hotseat.settings import Access, ApiKey, Fleet, Role, Settings

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire

BOSS, OF_BOSS = ApiKey("bosss", Role.ADMIN, "boss"), "Authorization: Bearer bosss"
RELOAD = post(b"{}", target="/hotseat/reload")
TO_WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


async def half_read(rig: RelayRig, request: bytes, client: Wire | None = None) -> Wire:
    """A client whose request lacks its last byte; the relay has its head and asks for the body."""
    client = client or await rig.client()
    await client.send(request.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n", 1)[:-1])
    await client.read_until(b"100 Continue\r\n\r\n")
    return client


@pytest.mark.parametrize("target", ["/hotseat/events", "/api/events", "/models/sse"])
async def test_an_anonymous_feed_is_cut(rig: RelayRig, target: str) -> None:
    """The first key ends it visibly with the reason, whichever role such a feed needs."""
    feed = await rig.send(get(target))
    await (await rig.management.call()).say(STREAM)
    await feed.read_until(b"hello\r\n")
    reload(rig, BOSS)
    cut = await feed.read_to_end()

    assert b"a valid API key is required" in cut
    assert not cut.endswith(LAST_CHUNK)


async def test_an_anonymous_feed_that_has_not_begun_is_refused(rig: RelayRig) -> None:
    """The management API has the request and has not answered yet: the client gets 401."""
    feed = await rig.send(get("/models/sse"))
    await rig.management.call()
    reload(rig, BOSS)

    assert (await feed.message()).status == 401


async def test_a_feed_that_sent_the_key_before_it_existed_continues(rig: RelayRig) -> None:
    """Its sender is identified again, by the key that hotseat knows by now."""
    feed = await rig.send(get("/hotseat/events", OF_BOSS))
    call = await rig.management.call()
    await call.say(STREAM)
    await feed.read_until(b"hello\r\n")
    reload(rig, BOSS)
    await call.say(LAST_CHUNK)

    assert (await feed.read_until(LAST_CHUNK)).endswith(LAST_CHUNK)


@pytest.mark.parametrize("request_", [RELOAD, chat()], ids=["action", "inference"])
async def test_an_anonymous_request_that_is_half_read_is_refused(rig: RelayRig, request_: bytes) -> None:
    """Nobody receives it: it gets 401, also if the rest of it arrives."""
    client = await half_read(rig, request_)
    reload(rig, BOSS)

    assert (await client.message()).status == 401
    assert rig.alpha.lines == rig.management.lines == []


async def test_the_key_of_a_half_read_request_counts(rig: RelayRig) -> None:
    """It has the limits of the key that it sent before hotseat knew it, and the model server does not get the key."""
    allowed, forbidden = [await half_read(rig, chat(model, OF_ANN)) for model in ("alpha", "beta")]
    reload(rig, ApiKey("anns", Role.INFERENCE, "ann", models=("alpha",)))
    await allowed.send(b"}")
    await forbidden.send(b"}")
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert [(await client.message()).status for client in (allowed, forbidden)] == [200, 403]
    assert call.request.all("authorization") == []


async def test_an_anonymous_request_behind_another_is_refused_in_its_turn(rig: RelayRig) -> None:
    """The one before it is in progress and finishes; this one has not begun."""
    client, call = await rig.reached(chat() + RELOAD)
    reload(rig, BOSS)
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 401]
    assert rig.management.lines == []


async def test_anonymous_inference_finishes(rig: RelayRig) -> None:
    """A stream is not cut, and who waits for a model gets it; the next request needs a key."""
    streaming, call = await rig.reached(chat())
    await call.say(STREAM)
    await streaming.read_until(b"hello\r\n")
    waiting = await rig.send(chat("slow"))
    await come_true(lambda: rig.waiting() == 1)
    reload(rig, ANN)
    await call.say(LAST_CHUNK)
    await streaming.read_until(LAST_CHUNK)
    await streaming.send(chat())
    await come_true(lambda: rig.launcher.is_starting("slow"))
    rig.launcher.become_ready("slow")
    await (await rig.upstreams["slow"].call()).say(HELLO)

    assert (await waiting.message()).status == 200
    assert (await streaming.message()).status == 401


async def test_an_anonymous_action_that_waits_for_a_model_is_refused(rig: RelayRig) -> None:
    """It gets 401, leaves the queue, and does not reach the model server."""
    client = await rig.send(post(b"[]", target="/upstream/slow/lora-adapters"))
    await come_true(lambda: rig.waiting() == 1)
    reload(rig, BOSS)

    assert (await client.message()).status == 401
    assert rig.waiting() == 0
    rig.launcher.become_ready("slow")


async def test_an_anonymous_action_at_a_model_server_is_ended(rig: RelayRig) -> None:
    """What the model server would say is no longer for a client without a key."""
    client, call = await rig.reached(post(b"[]", target="/upstream/alpha/lora-adapters"))
    reload(rig, BOSS)
    await call.ended()

    assert (await client.message()).status == 401


async def test_an_action_that_hotseat_does_already_is_answered(rig: RelayRig) -> None:
    """The client that creates the first key gets its secret, and who reloads the first `apiKeys` the result."""
    client = await rig.send(post(b"{}", target="/hotseat/keys/boss"))
    call = await rig.management.call()
    reload(rig, BOSS)
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"


async def test_an_anonymous_websocket_is_cut(rig: RelayRig) -> None:
    """It could carry any number of further requests, also where the role inference is enough."""
    client, call = await rig.reached(get("/v1/realtime?model=alpha", *TO_WEBSOCKET))
    await call.say(SWITCHED)
    await client.read_until(b"\r\n\r\n")
    reload(rig, BOSS)
    await client.read_to_end()
    await call.ended()

    assert rig.in_flight() == 0


async def test_what_needs_no_key_finishes(rig: RelayRig) -> None:
    """A load balancer that asks at this moment gets its answer."""
    client = await rig.send(get("/hotseat/ready"))
    call = await rig.management.call()
    reload(rig, BOSS)
    await call.say(HELLO)

    assert (await client.message()).status == 200


async def test_requests_at_ollamas_address_are_judged_too(rig: RelayRig) -> None:
    """The policy of the second listener changes with the first."""
    client = await half_read(rig, RELOAD, await client_of_ollama(rig))
    reload(rig, BOSS)

    assert (await client.message()).status == 401


async def test_a_feed_at_ollamas_address_is_cut(rig: RelayRig) -> None:
    """The same for what has begun there."""
    feed = await client_of_ollama(rig)
    await feed.send(get("/hotseat/events"))
    await (await rig.management.call()).say(STREAM)
    await feed.read_until(b"hello\r\n")
    reload(rig, BOSS)

    assert b"a valid API key is required" in await feed.read_to_end()


async def test_a_request_that_a_fleet_host_passed_on_finishes(open_rig: OpenRig) -> None:
    """The other host has identified its client, and its proof is valid once only."""
    settings = Settings(fleet=Fleet(("nats://x",), HostName("here"), secrets=(SECRET,)))
    rig = await open_rig(settings=settings)
    path = "/hotseat/reload"
    lines = passed_on(None, path, sender="gpu1", client="ops", role="operate")
    client = await half_read(rig, post(b"{}", *lines, target=path))
    context = rig.relay.context
    verifier = context.policy._host_verifier
    rig.relay.change_policy(Policy(structs.replace(settings, access=Access(api_keys=(BOSS,))), Accounts(), verifier))
    await client.send(b"}")
    await (await rig.management.call()).say(HELLO)

    assert (await client.message()).status == 200
