"""The relay's report of requests in progress, and its record of finished ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import come_true
from tests.support.relay_rig import HELLO, chat, get

from hotseat.errors import UnknownTicket
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayHouse


async def test_a_request_is_told_from_its_arrival_to_its_end(house: RelayHouse) -> None:
    """Waiting first, then sent, then answering, then gone."""
    client = await house.send(chat("slow"))
    await come_true(house.relay.under_way)
    [waiting] = house.relay.under_way()
    house.hands.become_ready("slow")
    call = await house.upstreams["slow"].call()
    [sent] = house.relay.under_way()
    await call.say(HELLO)
    await client.message()

    assert (waiting.model, waiting.method, waiting.target) == ("slow", b"POST", b"/v1/chat/completions")
    assert (waiting.is_waiting, sent.is_waiting) == (True, False)
    assert sent.ticket == waiting.ticket
    assert sent.first_byte_s is None
    assert 0 < sent.waited_s <= sent.seconds
    assert house.relay.under_way() == []


async def test_an_answer_that_has_begun_says_when(house: RelayHouse) -> None:
    """The time to the first byte is known while the rest still comes."""
    client = await house.send(chat("alpha"))
    call = await house.alpha.call()
    await call.say(HELLO[:-1])
    await come_true(lambda: house.relay.under_way()[0].first_byte_s is not None)
    await call.say(HELLO[-1:])

    assert (await client.message()).status == 200


async def test_the_management_api_is_no_models_request(house: RelayHouse) -> None:
    """Who watches is not among the watched."""
    await house.send(get("/hotseat/requests"))
    await house.management.call()

    assert house.relay.under_way() == []


async def test_a_request_that_is_dismissed_while_it_waits_gets_a_503(house: RelayHouse) -> None:
    """The client learns that an operator ended it, over a connection that stays usable."""
    client = await house.send(chat("slow"))
    await come_true(house.relay.under_way)
    house.dispatcher.dismiss(house.relay.under_way()[0].ticket)
    answer = await client.message()

    assert answer.status == 503
    assert b"an operator cancelled this request" in answer.body
    assert house.relay.under_way() == []


async def test_a_request_that_is_dismissed_in_flight_leaves_its_upstream(house: RelayHouse) -> None:
    """The model server's work is stopped at once."""
    client = await house.send(chat("alpha"))
    await house.alpha.call()
    house.dispatcher.dismiss(house.relay.under_way()[0].ticket)
    told = await client.message()

    assert told.status == 503
    assert ("X-Error-Code", "request_dismissed") in told.fields
    assert house.dispatcher.view().model(ModelName("alpha")).in_flight == 0


async def test_nobody_is_dismissed_twice(house: RelayHouse) -> None:
    """A ticket that is gone is an error, not a second cut."""
    client = await house.send(chat("slow"))
    await come_true(house.relay.under_way)
    ticket = house.relay.under_way()[0].ticket
    house.dispatcher.dismiss(ticket)
    await client.message()

    with pytest.raises(UnknownTicket, match="not here any more"):
        house.dispatcher.dismiss(ticket)
