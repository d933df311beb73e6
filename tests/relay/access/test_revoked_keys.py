"""A reload that removes a key, or some of its rights, ends its requests in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_launcher import come_true
from tests.support.relay_rig import HELLO, chat, get, turns

from hotseat.relay.access.policy import Rules
from hotseat.settings import Access, ApiKey, Role, Settings

if TYPE_CHECKING:
    import pytest
    from tests.relay.conftest import OpenHouse
    from tests.support.relay_rig import RelayHouse

ANN, BOB = ApiKey("anns", Role.INFERENCE, "ann"), ApiKey("bobs", Role.INFERENCE, "bob")
OF_ANN, OF_BOB = "Authorization: Bearer anns", "Authorization: Bearer bobs"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def reload(house: RelayHouse, *keys: ApiKey) -> None:
    house.relay.change_rules(Rules(Settings(access=Access(api_keys=keys)), house.relay.rules.accounts))


async def test_a_stream_of_a_removed_key_is_cut(open_house: OpenHouse, caplog: pytest.LogCaptureFixture) -> None:
    """The cut is visible to the client and the model server; streams of other keys continue."""
    house = await open_house(access=Access(api_keys=(ANN, BOB)))
    anns, to_ann = await house.reached(chat("alpha", OF_ANN))
    bobs, to_bob = await house.reached(chat("alpha", OF_BOB))
    await to_ann.say(STREAM)
    await to_bob.say(STREAM)
    await anns.read_until(b"hello\r\n")
    reload(house, BOB)
    cut = await anns.read_to_end()
    await to_ann.ended()
    await to_bob.say(LAST_CHUNK)
    whole = await bobs.message()

    assert not cut.endswith(LAST_CHUNK)
    assert b"a valid API key is required" in cut
    assert whole.body == b"hello"
    assert "requests were aborted because their keys no longer allow them count=1" in caplog.text
    assert house.in_flight() == 0


async def test_who_waits_with_a_removed_key_is_refused(open_house: OpenHouse) -> None:
    """It gets a 401 and leaves the queue."""
    house = await open_house(access=Access(api_keys=(ANN, BOB)))
    waiting = await house.send(chat("slow", OF_ANN))
    await come_true(lambda: house.waiting() == 1)
    reload(house, BOB)

    assert (await waiting.message()).status == 401
    assert house.waiting() == 0
    house.hands.become_ready("slow")


async def test_what_is_half_read_with_a_removed_key_is_refused(open_house: OpenHouse) -> None:
    """Nothing of it reaches a model."""
    house = await open_house(access=Access(api_keys=(ANN, BOB)))
    client = await house.send(chat("alpha", OF_ANN)[:-1])
    await come_true(lambda: house.relay.clients == 1)
    await turns()
    reload(house, BOB)

    assert (await client.message()).status == 401
    assert house.alpha.lines == []


async def test_what_is_behind_another_request_is_refused_in_its_turn(open_house: OpenHouse) -> None:
    """A pipelined request was let in when its head was read, and is judged again."""
    house = await open_house(access=Access(api_keys=(ANN, BOB)))
    client, call = await house.reached(chat("alpha", OF_BOB) + chat("alpha", OF_ANN))
    reload(house, BOB)
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 401]


async def test_a_key_that_lost_a_model_loses_its_streams_of_it(open_house: OpenHouse) -> None:
    """Streams of models that it may still use continue."""
    house = await open_house(access=Access(api_keys=(ANN,)))
    lost, to_lost = await house.reached(chat("alpha", OF_ANN))
    await to_lost.say(STREAM)
    await lost.read_until(b"hello\r\n")
    reload(house, ApiKey("anns", Role.INFERENCE, "ann", models=("beta",)))

    assert b"this API key may not use" in await lost.read_to_end()


async def test_a_key_that_lost_its_role_loses_its_feeds(open_house: OpenHouse) -> None:
    """An operator's view of the log ends with the right to look at it."""
    house = await open_house(access=Access(api_keys=(ApiKey("anns", Role.OPERATE, "ann"),)))
    feed = await house.send(get("/hotseat/events", OF_ANN))
    await (await house.management.call()).say(STREAM)
    await feed.read_until(b"hello\r\n")
    reload(house, ANN)

    assert b"role operate" in await feed.read_to_end()


async def test_a_reload_that_changes_nothing_for_a_key_ends_nothing(open_house: OpenHouse) -> None:
    """Limits hold for what comes next."""
    house = await open_house(access=Access(api_keys=(ANN,)))
    client, call = await house.reached(chat("alpha", OF_ANN))
    reload(house, ApiKey("anns", Role.ADMIN, "ann", per_minute=1, concurrency=1, models=("alpha",)))
    await call.say(HELLO)

    assert (await client.message()).status == 200


async def test_without_keys_nobody_is_judged_again(house: RelayHouse) -> None:
    """Who was let in when nobody was asked for a key may finish; the next one is asked."""
    client, call = await house.reached(chat())
    reload(house, ANN)
    await call.say(HELLO)

    assert (await client.message()).status == 200
    assert (await house.refusal(chat())).status == 401
