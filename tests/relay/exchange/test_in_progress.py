"""The relay's report of requests in progress, and its record of finished ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get
from tests.support.waiting import come_true

from hotseat.errors import UnknownTicket
from hotseat.identifiers import ModelName

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig


async def test_a_request_is_listed_from_its_arrival_to_its_end(rig: RelayRig) -> None:
    """A request is reported as waiting, then as sent, and not at all after its end."""
    client = await rig.send(chat("slow"))
    await come_true(rig.relay.connections.in_progress)
    [waiting] = rig.relay.connections.in_progress()
    rig.launcher.become_ready("slow")
    call = await rig.upstreams["slow"].call()
    [sent] = rig.relay.connections.in_progress()
    await call.say(HELLO)
    await client.message()

    assert (waiting.model, waiting.method, waiting.target) == ("slow", b"POST", b"/v1/chat/completions")
    assert (waiting.is_waiting, sent.is_waiting) == (True, False)
    assert sent.ticket == waiting.ticket
    assert sent.first_byte_s is None
    assert 0 < sent.waited_s <= sent.seconds
    assert rig.relay.connections.in_progress() == []


async def test_an_answer_that_has_begun_says_when(rig: RelayRig) -> None:
    """The time to the first byte is reported while the response continues."""
    client = await rig.send(chat("alpha"))
    call = await rig.alpha.call()
    await call.say(HELLO[:-1])
    await come_true(lambda: rig.relay.connections.in_progress()[0].first_byte_s is not None)
    await call.say(HELLO[-1:])

    assert (await client.message()).status == 200


async def test_the_management_api_is_no_models_request(rig: RelayRig) -> None:
    """Requests to the management API are not reported."""
    await rig.send(get("/hotseat/requests"))
    await rig.management.call()

    assert rig.relay.connections.in_progress() == []


async def test_a_request_that_is_cancelled_while_it_waits_gets_a_503(rig: RelayRig) -> None:
    """A waiting request that is cancelled gets 503 with the reason."""
    client = await rig.send(chat("slow"))
    await come_true(rig.relay.connections.in_progress)
    rig.dispatcher.operator.cancel(rig.relay.connections.in_progress()[0].ticket)
    answer = await client.message()

    assert answer.status == 503
    assert b"an operator cancelled this request" in answer.body
    assert rig.relay.connections.in_progress() == []


async def test_a_request_that_is_cancelled_in_flight_leaves_its_upstream(rig: RelayRig) -> None:
    """A request in flight that is cancelled before its response gets 503 request_cancelled and releases its lease."""
    client = await rig.send(chat("alpha"))
    await rig.alpha.call()
    rig.dispatcher.operator.cancel(rig.relay.connections.in_progress()[0].ticket)
    reply = await client.message()

    assert reply.status == 503
    assert ("X-Error-Code", "request_cancelled") in reply.fields
    assert rig.dispatcher.views.of(ModelName("alpha")).in_flight == 0


async def test_a_request_cannot_be_cancelled_twice(rig: RelayRig) -> None:
    """Cancelling a ticket a second time raises UnknownTicket."""
    client = await rig.send(chat("slow"))
    await come_true(rig.relay.connections.in_progress)
    ticket = rig.relay.connections.in_progress()[0].ticket
    rig.dispatcher.operator.cancel(ticket)
    await client.message()

    with pytest.raises(UnknownTicket, match="not in progress"):
        rig.dispatcher.operator.cancel(ticket)
