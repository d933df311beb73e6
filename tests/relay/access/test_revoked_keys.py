"""A reload that removes a key, or some of its rights, ends its requests in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.relay_rig import HELLO, chat, get
from tests.support.waiting import come_true

from hotseat.activity.usage import digest_of
from hotseat.relay.access.policy import Policy
from hotseat.settings import Access, ApiKey, Budget, Role, Settings

if TYPE_CHECKING:
    import pytest
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

ANN, BOB = ApiKey("anns", Role.INFERENCE, "ann"), ApiKey("bobs", Role.INFERENCE, "bob")
OF_ANN, OF_BOB = "Authorization: Bearer anns", "Authorization: Bearer bobs"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def reload(rig: RelayRig, *keys: ApiKey) -> None:
    rig.relay.change_policy(Policy(Settings(access=Access(api_keys=keys)), rig.relay.context.policy.accounts))


async def test_a_stream_of_a_removed_key_is_cut(open_rig: OpenRig, caplog: pytest.LogCaptureFixture) -> None:
    """The stream is cut visibly with the reason, and streams of other keys continue."""
    rig = await open_rig(access=Access(api_keys=(ANN, BOB)))
    anns, to_ann = await rig.reached(chat("alpha", OF_ANN))
    bobs, to_bob = await rig.reached(chat("alpha", OF_BOB))
    await to_ann.say(STREAM)
    await to_bob.say(STREAM)
    await anns.read_until(b"hello\r\n")
    reload(rig, BOB)
    cut = await anns.read_to_end()
    await to_ann.ended()
    await to_bob.say(LAST_CHUNK)
    whole = await bobs.message()

    assert not cut.endswith(LAST_CHUNK)
    assert b"a valid API key is required" in cut
    assert whole.body == b"hello"
    assert "requests were aborted because the API keys no longer allow them count=1" in caplog.text
    assert rig.in_flight() == 0


async def test_who_waits_with_a_removed_key_is_refused(open_rig: OpenRig) -> None:
    """A waiting request of a removed key gets 401 and leaves the queue."""
    rig = await open_rig(access=Access(api_keys=(ANN, BOB)))
    waiting = await rig.send(chat("slow", OF_ANN))
    await come_true(lambda: rig.waiting() == 1)
    reload(rig, BOB)

    assert (await waiting.message()).status == 401
    assert rig.waiting() == 0
    rig.launcher.become_ready("slow")


async def test_what_is_half_read_with_a_removed_key_is_refused(open_rig: OpenRig) -> None:
    """A request that is still being read gets 401 and does not reach a model."""
    rig = await open_rig(access=Access(api_keys=(ANN, BOB)))
    client = await rig.send(chat("alpha", OF_ANN)[:-1])
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    reload(rig, BOB)

    assert (await client.message()).status == 401
    assert rig.alpha.lines == []


async def test_what_is_behind_another_request_is_refused_in_its_turn(open_rig: OpenRig) -> None:
    """A pipelined request of a removed key gets 401 after the response before it."""
    rig = await open_rig(access=Access(api_keys=(ANN, BOB)))
    client, call = await rig.reached(chat("alpha", OF_BOB) + chat("alpha", OF_ANN))
    reload(rig, BOB)
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 401]


async def test_a_key_that_lost_a_model_loses_its_streams_of_it(open_rig: OpenRig) -> None:
    """A stream of a model that the key may no longer use is cut with the reason."""
    rig = await open_rig(access=Access(api_keys=(ANN,)))
    lost, to_lost = await rig.reached(chat("alpha", OF_ANN))
    await to_lost.say(STREAM)
    await lost.read_until(b"hello\r\n")
    reload(rig, ApiKey("anns", Role.INFERENCE, "ann", models=("beta",)))

    assert b"this API key may not use" in await lost.read_to_end()


async def test_a_key_that_lost_its_role_loses_its_feeds(open_rig: OpenRig) -> None:
    """An event feed is cut when its key loses the role operate."""
    rig = await open_rig(access=Access(api_keys=(ApiKey("anns", Role.OPERATE, "ann"),)))
    feed = await rig.send(get("/hotseat/events", OF_ANN))
    await (await rig.management.call()).say(STREAM)
    await feed.read_until(b"hello\r\n")
    reload(rig, ANN)

    assert b"role operate" in await feed.read_to_end()


async def test_a_reload_that_changes_nothing_for_a_key_ends_nothing(open_rig: OpenRig) -> None:
    """A request that the changed key still allows continues, whatever the new limits are."""
    rig = await open_rig(access=Access(api_keys=(ANN,)))
    client, call = await rig.reached(chat("alpha", OF_ANN))
    reload(rig, ApiKey("anns", Role.ADMIN, "ann", requests=Budget(1, 86400.0), concurrency=1, models=("alpha",)))
    await call.say(HELLO)

    assert (await client.message()).status == 200


async def test_a_key_with_a_new_secret_keeps_its_streams(open_rig: OpenRig) -> None:
    """What the old secret began goes on to its end; the next request with it gets 401, and the new one is accepted."""
    rig = await open_rig(access=Access(api_keys=(ANN,)))
    client, call = await rig.reached(chat("alpha", OF_ANN))
    await call.say(STREAM)
    await client.read_until(b"hello\r\n")
    rig.relay.context.policy.accounts.replace_digest(digest_of(ANN), digest_of(ApiKey("new-secret")))
    reload(rig, ApiKey("new-secret", Role.INFERENCE, "ann"))
    await call.say(LAST_CHUNK)
    refused = await rig.refusal(chat("alpha", OF_ANN))
    _, accepted = await rig.exchange(chat("alpha", "Authorization: Bearer new-secret"))

    assert await client.read_until(LAST_CHUNK) is not None
    assert (refused.status, accepted.status) == (401, 200)
