"""An upstream that fails: an error while that is still possible, else a cut that nobody can take for an end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import come_true, spec
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.transport import PROMPTLY_S, End, within

from hotseat.catalog.spec import Timeouts
from hotseat.identifiers import Address, ModelName
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from tests.relay.conftest import OpenHouse
    from tests.support.relay_rig import RelayHouse
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
EVENT = b"9\r\ndata: x\n\n\r\n"
ALPHA = ModelName("alpha")
NOBODY = Address("127.0.0.1", 1)
"""Where nobody listens."""


@pytest.mark.usefixtures("impatient")
async def test_an_upstream_that_cannot_be_reached_is_named(house: RelayHouse) -> None:
    """502, with the model and the address."""
    await house.alpha.aclose()
    answered = await house.refusal(chat())

    assert answered.status == 502
    assert "alpha is unreachable" in answered.body.decode()
    assert str(house.alpha.address) in answered.body.decode()
    assert house.in_flight() == 0
    assert house.notebook.entries[0].status == 502


@pytest.mark.usefixtures("impatient")
async def test_an_address_that_is_no_name_is_an_answer_too(house: RelayHouse) -> None:
    """Any connection failure is reported; no request waits forever."""
    house.hands.addresses["alpha"] = house.alpha.address._replace(host="a" * 64 + ".example")
    answered = await house.refusal(chat())

    assert answered.status == 502


@pytest.mark.usefixtures("impatient")
async def test_an_upstream_that_cannot_be_reached_in_time_is_given_up(open_house: OpenHouse) -> None:
    """A connection that never comes about is an error after timeouts.connect."""
    house = await open_house(models=(spec("alpha", timeouts=Timeouts(connect_s=0.0)),))
    answered = await house.refusal(chat())

    assert answered.status == 502
    assert "within 0 s" in answered.body.decode()


async def test_a_server_that_has_just_died_is_started_again_for_whoever_asks(house: RelayHouse) -> None:
    """Nothing was sent yet, so the request queues again instead of failing."""
    alive, house.hands.addresses["alpha"] = house.hands.addresses["alpha"], NOBODY
    client = await house.send(chat())
    await come_true(lambda: house.in_flight() == 1)
    house.hands.addresses["alpha"] = alive
    house.hands.crash("alpha", "killed by signal 9")
    await (await house.alpha.call()).say(HELLO)

    assert (await client.message()).status == 200
    assert len(house.notebook.entries) == 1


async def test_what_a_server_may_have_read_is_not_sent_to_another(house: RelayHouse) -> None:
    """A connection broke after the request was sent; that nobody listens any more is the answer."""
    client, call = await house.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await house.alpha.call()
    await house.alpha.refuse_connections()
    second.hang_up()

    assert (await client.message()).status == 502
    assert house.alpha.requests == 2


async def test_a_client_that_leaves_before_the_next_try_is_forgotten(house: RelayHouse) -> None:
    """Its lease is given back, and nobody dials for it again."""
    house.hands.addresses["alpha"] = NOBODY
    client = await house.send(chat())
    await come_true(lambda: house.in_flight() == 1)
    await house.clocks_seen()
    client.hang_up()
    await come_true(lambda: house.in_flight() == 0, PROMPTLY_S)

    assert house.notebook.entries[0].status == 499


async def test_the_management_api_can_fail_too(house: RelayHouse) -> None:
    """Then it is called by what it is, and nothing is written down for a model."""
    client = await house.send(get("/health"))
    (await house.management.call()).hang_up()
    answered = await client.message()

    assert answered.status == 502
    assert "hotseat's own API" in answered.body.decode()
    assert house.notebook.entries == []


async def test_an_upstream_that_closes_without_a_word_is_not_asked_again(house: RelayHouse) -> None:
    """On a fresh connection it has read the request: asking twice could do the work twice."""
    client, call = await house.reached(chat())
    call.hang_up()
    answered = await client.message()

    assert answered.status == 502
    assert "closed the connection before it responded" in answered.body.decode()
    assert "hotseat logs alpha" in answered.body.decode()
    assert house.alpha.requests == 1


async def test_a_connection_that_goes_stale_is_replaced_once(house: RelayHouse) -> None:
    """A read is sent again when a kept connection closes without a response, but not forever."""
    client, call = await house.reached(get())
    await call.say(HELLO)
    await client.message()
    await client.send(get())
    second = await house.alpha.call()
    second.hang_up()
    third = await house.alpha.call()
    third.hang_up()
    answered = await client.message()

    assert second.line is call.line
    assert third.line is not call.line
    assert answered.status == 502
    assert house.alpha.requests == 3


async def test_what_was_read_on_a_kept_connection_is_not_executed_twice(house: RelayHouse) -> None:
    """Not one byte came back, but the server had the request: it may have begun."""
    client, call = await house.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await house.alpha.call()
    second.hang_up()

    assert second.line is call.line
    assert (await client.message()).status == 502
    assert house.alpha.requests == 2


async def test_a_server_that_closes_as_it_is_used_again_costs_nothing(house: RelayHouse) -> None:
    """What it certainly did not take goes out on a fresh connection."""
    client, call = await house.reached(chat())
    await call.say(HELLO)
    await client.message()
    await call.line.close()
    client.sock.send(chat())  # in the same breath: hotseat hears of both at once
    again = await house.alpha.call()
    await again.say(HELLO)

    assert (await client.message()).status == 200
    assert house.alpha.requests == 2


async def test_a_large_body_is_sent_anew_from_its_beginning(house: RelayHouse) -> None:
    """What is on disk can be read twice."""
    upload = bytes(range(256)) * 8000
    client, call = await house.reached(get())
    await call.say(HELLO)
    await client.message()
    await client.send(post(upload, target="/x?model=alpha").replace(b"POST", b"GET", 1))
    (await house.alpha.call()).hang_up()
    again = await house.alpha.call()
    await again.say(HELLO)

    assert again.request.body == upload
    assert (await client.message()).status == 200


@pytest.mark.parametrize("said", [b"H", b"HTTP/1.1 102 Processing\r\n\r\n"], ids=["one byte", "an interim answer"])
async def test_an_upstream_that_said_anything_is_not_asked_again(house: RelayHouse, said: bytes) -> None:
    """One byte is enough to know that it had begun."""
    client, call = await house.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await house.alpha.call()
    await second.say(said)
    second.hang_up()

    assert second.line is call.line
    assert (await client.message()).status == 502
    assert house.alpha.requests == 2


async def _streaming(house: RelayHouse, request: bytes, head: bytes = SSE, event: bytes = EVENT) -> tuple[Wire, Call]:
    client, call = await house.reached(request)
    await call.say(head + event)
    await client.read_until(b"data: x\n\n")
    return client, call


async def test_a_stream_that_breaks_ends_with_an_error_event(house: RelayHouse) -> None:
    """The event is one chunk, the last chunk never comes."""
    client, call = await _streaming(house, chat())
    call.hang_up()
    end = await client.end()
    size, _, event = client.unread.removeprefix(b"\r\n").partition(b"\r\n")

    assert end is End.CLOSED
    assert len(event) == int(size, 16) + 2
    error = json.loads(event.strip().removeprefix(b"data: "))["error"]
    assert "alpha closed the connection in the middle of its response" in error["message"]
    assert not client.unread.endswith(b"0\r\n\r\n")
    assert house.notebook.entries[0].status == 502


async def test_an_anthropic_stream_breaks_in_its_own_words(house: RelayHouse) -> None:
    """Its clients silently drop an error in OpenAI's format."""
    client, call = await _streaming(house, post(b'{"model":"alpha"}', target="/v1/messages"))
    call.hang_up()
    await client.end()

    assert b"event: error\ndata: " in client.unread
    assert b"message_stop" not in client.unread


async def test_a_stream_that_breaks_amid_a_chunk_gets_no_event(house: RelayHouse) -> None:
    """It would become part of the chunk."""
    client, call = await _streaming(house, chat(), event=b"20\r\ndata: x\n\n")
    call.hang_up()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


@pytest.mark.parametrize("torn", [b"1", b"5\r", b"5\r\n"])
async def test_a_stream_that_breaks_amid_the_size_of_a_chunk_gets_no_event(house: RelayHouse, torn: bytes) -> None:
    """Half a size was relayed already, and a size after it would make a third."""
    client, call = await _streaming(house, chat(), event=EVENT + torn)
    await client.read_until(b"\r\n" + torn)
    call.hang_up()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_a_stream_that_breaks_the_rules_gets_an_event_where_the_client_stands(house: RelayHouse) -> None:
    """What was not relayed does not count: the client is between chunks, so an event can be inserted."""
    client, call = await _streaming(house, chat())
    await call.say(b"9\r\ndata: y\n\nXX")

    assert await client.end() is End.CLOSED
    assert b"data: y" not in client.unread
    assert b"malformed" in client.unread


async def test_a_broken_answer_that_is_no_stream_is_short(house: RelayHouse) -> None:
    """Its length was announced, so clients see that it is incomplete."""
    client, call = await house.reached(chat())
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
    call.hang_up()

    assert (await client.read_to_end()).endswith(b"\r\n\r\nhello")


async def test_a_broken_answer_that_would_look_complete_is_reset(house: RelayHouse) -> None:
    """Where the end of the connection ends the body, only a reset shows that it is incomplete."""
    client, call = await house.reached(get(version="1.0"))
    await call.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await client.read_until(b"hello")
    await _cut_by_dispatcher(house)

    assert await client.end() is End.RESET
    assert await call.ended() in End


async def test_a_reset_while_an_answer_ends_with_its_connection_is_no_end(house: RelayHouse) -> None:
    """A crash is not a clean end: the last chunk never comes."""
    client, call = await house.reached(get())
    await call.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await client.read_until(b"hello\r\n")
    await call.line.reset()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_a_broken_stream_for_an_old_client_is_told_and_reset(house: RelayHouse) -> None:
    """Without chunks the error event goes out first, then the connection breaks."""
    client, call = await _streaming(house, post(b'{"model":"alpha"}', version="1.0"))
    call.hang_up()

    assert await client.end() is End.RESET
    assert b'data: {"error"' in client.unread


async def test_a_broken_stream_without_framing_is_told(house: RelayHouse) -> None:
    """The event comes, the last chunk does not."""
    client, call = await _streaming(house, chat(), ENDLESS_SSE, b"data: x\n\n")
    await call.line.reset()

    assert await client.end() is End.CLOSED
    assert b'data: {"error"' in client.unread
    assert not client.unread.endswith(b"0\r\n\r\n")


async def _cut_by_dispatcher(house: RelayHouse) -> None:
    tasks = Tasks()
    unloading = tasks.start(house.dispatcher.unload(ALPHA, force=True), "unload")
    await within(5, unloading)


async def test_a_cut_before_the_answer_is_an_error(house: RelayHouse) -> None:
    """Forcing a model to stop cuts its requests, and the client gets the reason."""
    client, call = await house.reached(chat())
    await _cut_by_dispatcher(house)
    answered = await client.message()

    assert answered.status == 503
    assert "is being stopped" in answered.body.decode()
    assert await call.ended() in End
    assert house.dispatcher.view().model(ALPHA).phase is Phase.COLD


async def test_a_cut_amid_a_stream_is_told_in_the_stream(house: RelayHouse) -> None:
    """The status was sent long ago."""
    client, call = await _streaming(house, chat())
    await _cut_by_dispatcher(house)

    assert await client.end() is End.CLOSED
    assert b"model_unloaded" in client.unread
    assert await call.ended() in End


async def test_a_model_that_crashes_takes_nobody_else_along(house: RelayHouse) -> None:
    """Its lease ends with it, and the next request starts it again."""
    client, call = await house.reached(chat())
    house.hands.crash("alpha", "killed by signal 9")
    call.hang_up()
    refused = await client.message()
    await come_true(lambda: house.in_flight() == 0)
    _, answered = await house.exchange(chat())

    assert refused.status == 502
    assert answered.status == 200


async def test_an_upstream_may_answer_before_it_has_read_everything(house: RelayHouse) -> None:
    """Its response counts, and the connection with the unread rest is not used again."""
    house.alpha.listens.clear()
    client = await house.send(post(b"a" * 8_000_000, target="/x?model=alpha"))
    await come_true(lambda: house.alpha.lines and house.alpha.lines[0].wire.is_spoken_to)
    line = house.alpha.lines[0]
    await line.wire.send(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
    answered = await client.message()
    house.alpha.listens.set()
    await line.ended(by=15)
    await client.send(get())
    await (await house.alpha.call()).say(HELLO)

    assert answered.first_line == "HTTP/1.1 413 No"
    assert (await client.message()).status == 200
    assert len(house.alpha.lines) == 2


async def test_an_upstream_that_stops_talking_amid_an_upload_is_given_up(house: RelayHouse) -> None:
    """It closed its side; the unread rest does not hold the request forever."""
    house.alpha.listens.clear()
    client = await house.send(post(b"a" * 8_000_000, target="/x?model=alpha"))
    await come_true(lambda: house.alpha.lines and house.alpha.lines[0].wire.is_spoken_to)
    house.alpha.lines[0].wire.say_goodbye()
    answered = await client.message()
    house.alpha.listens.set()

    assert answered.status == 502
