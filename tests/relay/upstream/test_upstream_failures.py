"""Failing upstreams: an error response while that is possible, else a visible cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chat, get, post
from tests.support.transport import DEADLINE_S, End, promptly, within
from tests.support.waiting import come_true

from hotseat.catalog.spec import Timeouts
from hotseat.identifiers import Address, ModelName
from hotseat.scheduling.lifecycle import Phase
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
EVENT = b"9\r\ndata: x\n\n\r\n"
ALPHA = ModelName("alpha")
NOBODY = Address("127.0.0.1", 1)
"""Where nobody listens."""


@pytest.mark.usefixtures("impatient")
async def test_an_upstream_that_cannot_be_reached_is_named(rig: RelayRig) -> None:
    """An unreachable upstream is a 502 with the model and the address."""
    await rig.alpha.aclose()
    answered = await rig.refusal(chat())

    assert answered.status == 502
    assert "alpha is unreachable" in answered.body.decode()
    assert str(rig.alpha.address) in answered.body.decode()
    assert rig.in_flight() == 0
    assert rig.activity.entries[0].status == 502


@pytest.mark.usefixtures("impatient")
async def test_an_address_that_is_no_name_is_an_answer_too(rig: RelayRig) -> None:
    """An invalid host name is a 502."""
    rig.launcher.addresses["alpha"] = rig.alpha.address._replace(host="a" * 64 + ".example")
    answered = await rig.refusal(chat())

    assert answered.status == 502


@pytest.mark.usefixtures("impatient")
async def test_an_upstream_that_cannot_be_reached_in_time_is_given_up(open_rig: OpenRig) -> None:
    """A connection that exceeds timeouts.connect is a 502."""
    rig = await open_rig(models=(spec("alpha", timeouts=Timeouts(connect_s=0.0)),))
    answered = await rig.refusal(chat())

    assert answered.status == 502
    assert "within 0 s" in answered.body.decode()


async def test_a_server_that_has_just_died_is_started_again_for_whoever_asks(rig: RelayRig) -> None:
    """If the server died before the request was sent, the request queues again and is served."""
    alive, rig.launcher.addresses["alpha"] = rig.launcher.addresses["alpha"], NOBODY
    client = await rig.send(chat())
    await come_true(lambda: rig.in_flight() == 1)
    rig.launcher.addresses["alpha"] = alive
    rig.launcher.crash("alpha", "killed by signal 9")
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message()).status == 200
    assert len(rig.activity.entries) == 1


async def test_what_a_server_may_have_read_is_not_sent_to_another(rig: RelayRig) -> None:
    """A request that was sent gets 502, even if the server no longer listens."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await rig.alpha.call()
    await rig.alpha.refuse_connections()
    second.hang_up()

    assert (await client.message()).status == 502
    assert rig.alpha.requests == 2


async def test_a_client_that_leaves_before_the_next_try_is_forgotten(rig: RelayRig) -> None:
    """A client that disconnects between connection attempts releases its lease."""
    rig.launcher.addresses["alpha"] = NOBODY
    client = await rig.send(chat())
    await come_true(lambda: rig.in_flight() == 1)
    await rig.clocks_seen()
    client.hang_up()
    await promptly(come_true(lambda: rig.in_flight() == 0))

    assert rig.activity.entries[0].status == 499


async def test_the_management_api_can_fail_too(rig: RelayRig) -> None:
    """A failure of the management API is a 502 that names it, and is not recorded for a model."""
    client = await rig.send(get("/health"))
    (await rig.management.call()).hang_up()
    answered = await client.message()

    assert answered.status == 502
    assert "hotseat's own API" in answered.body.decode()
    assert rig.activity.entries == []


async def test_an_upstream_that_closes_without_a_word_is_not_asked_again(rig: RelayRig) -> None:
    """A fresh connection that closes without a response is a 502, and the request is not repeated."""
    client, call = await rig.reached(chat())
    call.hang_up()
    answered = await client.message()

    assert answered.status == 502
    assert "closed the connection before it responded" in answered.body.decode()
    assert "hotseat logs alpha" in answered.body.decode()
    assert rig.alpha.requests == 1


async def test_a_connection_that_goes_stale_is_replaced_once(rig: RelayRig) -> None:
    """A GET is sent again once when a reused connection closes without a response."""
    client, call = await rig.reached(get())
    await call.say(HELLO)
    await client.message()
    await client.send(get())
    second = await rig.alpha.call()
    second.hang_up()
    third = await rig.alpha.call()
    third.hang_up()
    answered = await client.message()

    assert second.line is call.line
    assert third.line is not call.line
    assert answered.status == 502
    assert rig.alpha.requests == 3


async def test_what_was_read_on_a_kept_connection_is_not_executed_twice(rig: RelayRig) -> None:
    """A POST that was read on a reused connection gets 502 and is not repeated."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await rig.alpha.call()
    second.hang_up()

    assert second.line is call.line
    assert (await client.message()).status == 502
    assert rig.alpha.requests == 2


async def test_a_server_that_closes_as_it_is_used_again_costs_nothing(rig: RelayRig) -> None:
    """A request that the closing server did not receive is sent on a new connection."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    await client.message()
    await call.line.close()
    client.sock.send(chat())  # hotseat sees both at once
    again = await rig.alpha.call()
    await again.say(HELLO)

    assert (await client.message()).status == 200
    assert rig.alpha.requests == 2


async def test_a_large_body_is_sent_anew_from_its_beginning(rig: RelayRig) -> None:
    """A repeated request sends its body from disk again, complete."""
    upload = bytes(range(256)) * 8000
    client, call = await rig.reached(get())
    await call.say(HELLO)
    await client.message()
    await client.send(post(upload, target="/x?model=alpha").replace(b"POST", b"GET", 1))
    (await rig.alpha.call()).hang_up()
    again = await rig.alpha.call()
    await again.say(HELLO)

    assert again.request.body == upload
    assert (await client.message()).status == 200


@pytest.mark.parametrize("said", [b"H", b"HTTP/1.1 102 Processing\r\n\r\n"], ids=["one byte", "an interim answer"])
async def test_an_upstream_that_said_anything_is_not_asked_again(rig: RelayRig, said: bytes) -> None:
    """After one byte or an interim response a request is not repeated."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    await client.message()
    await client.send(chat())
    second = await rig.alpha.call()
    await second.say(said)
    second.hang_up()

    assert second.line is call.line
    assert (await client.message()).status == 502
    assert rig.alpha.requests == 2


async def _streaming(rig: RelayRig, request: bytes, head: bytes = SSE, event: bytes = EVENT) -> tuple[Wire, Call]:
    client, call = await rig.reached(request)
    await call.say(head + event)
    await client.read_until(b"data: x\n\n")
    return client, call


async def test_a_stream_that_breaks_ends_with_an_error_event(rig: RelayRig) -> None:
    """A broken stream ends with an error event and without the last chunk."""
    client, call = await _streaming(rig, chat())
    call.hang_up()
    end = await client.end()
    size, _, event = client.unread.removeprefix(b"\r\n").partition(b"\r\n")

    assert end is End.CLOSED
    assert len(event) == int(size, 16) + 2
    error = json.loads(event.strip().removeprefix(b"data: "))["error"]
    assert "alpha closed the connection in the middle of its response" in error["message"]
    assert not client.unread.endswith(b"0\r\n\r\n")
    assert rig.activity.entries[0].status == 502


async def test_an_anthropic_stream_breaks_in_its_own_words(rig: RelayRig) -> None:
    """A broken /v1/messages stream ends with an `error` event."""
    client, call = await _streaming(rig, post(b'{"model":"alpha"}', target="/v1/messages"))
    call.hang_up()
    await client.end()

    assert b"event: error\ndata: " in client.unread
    assert b"message_stop" not in client.unread


async def test_a_stream_that_breaks_amid_a_chunk_gets_no_event(rig: RelayRig) -> None:
    """A stream that breaks within a chunk gets no event, which would become part of the chunk."""
    client, call = await _streaming(rig, chat(), event=b"20\r\ndata: x\n\n")
    call.hang_up()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


@pytest.mark.parametrize("torn", [b"1", b"5\r", b"5\r\n"])
async def test_a_stream_that_breaks_amid_the_size_of_a_chunk_gets_no_event(rig: RelayRig, torn: bytes) -> None:
    """A stream that breaks within a chunk size gets no event."""
    client, call = await _streaming(rig, chat(), event=EVENT + torn)
    await client.read_until(b"\r\n" + torn)
    call.hang_up()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_a_stream_that_breaks_the_rules_gets_an_event_where_the_client_stands(rig: RelayRig) -> None:
    """An invalid chunk is not relayed, and the client gets an error event instead."""
    client, call = await _streaming(rig, chat())
    await call.say(b"9\r\ndata: y\n\nXX")

    assert await client.end() is End.CLOSED
    assert b"data: y" not in client.unread
    assert b"malformed" in client.unread


async def test_a_broken_answer_that_is_no_stream_is_short(rig: RelayRig) -> None:
    """A broken response with Content-Length has fewer bytes than announced."""
    client, call = await rig.reached(chat())
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
    call.hang_up()

    assert (await client.read_to_end()).endswith(b"\r\n\r\nhello")


async def test_a_broken_answer_that_would_look_complete_is_reset(rig: RelayRig) -> None:
    """A broken response to an HTTP/1.0 client ends with a reset."""
    client, call = await rig.reached(get(version="1.0"))
    await call.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await client.read_until(b"hello")
    await _cut_by_dispatcher(rig)

    assert await client.end() is End.RESET
    assert await call.ended() in End


async def test_a_reset_while_an_answer_ends_with_its_connection_is_no_end(rig: RelayRig) -> None:
    """If the upstream resets, a response without a length ends without the last chunk."""
    client, call = await rig.reached(get())
    await call.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
    await client.read_until(b"hello\r\n")
    await call.line.reset()

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_a_broken_stream_for_an_old_client_gets_an_error_event_and_a_reset(rig: RelayRig) -> None:
    """A broken stream to an HTTP/1.0 client gets an error event and then a reset."""
    client, call = await _streaming(rig, post(b'{"model":"alpha"}', version="1.0"))
    call.hang_up()

    assert await client.end() is End.RESET
    assert b'data: {"error"' in client.unread


async def test_a_broken_stream_without_framing_gets_an_error_event(rig: RelayRig) -> None:
    """A broken stream without a length gets an error event and no last chunk."""
    client, call = await _streaming(rig, chat(), ENDLESS_SSE, b"data: x\n\n")
    await call.line.reset()

    assert await client.end() is End.CLOSED
    assert b'data: {"error"' in client.unread
    assert not client.unread.endswith(b"0\r\n\r\n")


async def _cut_by_dispatcher(rig: RelayRig) -> None:
    tasks = Tasks()
    unloading = tasks.start(rig.dispatcher.operator.unload(ALPHA, force=True), "unload")
    await within(DEADLINE_S, unloading)


async def test_a_cut_before_the_answer_is_an_error(rig: RelayRig) -> None:
    """A forced unload before the response is a 503 with the reason."""
    client, call = await rig.reached(chat())
    await _cut_by_dispatcher(rig)
    answered = await client.message()

    assert answered.status == 503
    assert "is being stopped" in answered.body.decode()
    assert await call.ended() in End
    assert rig.dispatcher.views.of(ALPHA).phase is Phase.COLD


async def test_a_forced_unload_amid_a_stream_is_an_error_event(rig: RelayRig) -> None:
    """A forced unload during a stream is an error event."""
    client, call = await _streaming(rig, chat())
    await _cut_by_dispatcher(rig)

    assert await client.end() is End.CLOSED
    assert b"model_unloaded" in client.unread
    assert await call.ended() in End


async def test_a_model_that_crashes_takes_nobody_else_along(rig: RelayRig) -> None:
    """After a crash the client gets 502, and the next request starts the model again."""
    client, call = await rig.reached(chat())
    rig.launcher.crash("alpha", "killed by signal 9")
    call.hang_up()
    refused = await client.message()
    await come_true(lambda: rig.in_flight() == 0)
    _, answered = await rig.exchange(chat())

    assert refused.status == 502
    assert answered.status == 200


async def test_an_upstream_may_answer_before_it_has_read_everything(rig: RelayRig) -> None:
    """A response before the end of the request is relayed, and its connection is not reused."""
    rig.alpha.listens.clear()
    client = await rig.send(post(b"a" * 8_000_000, target="/x?model=alpha"))
    await come_true(lambda: rig.alpha.lines and rig.alpha.lines[0].wire.is_spoken_to)
    line = rig.alpha.lines[0]
    await line.wire.send(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
    answered = await client.message()
    rig.alpha.listens.set()
    await line.ended_later()
    await client.send(get())
    await (await rig.alpha.call()).say(HELLO)

    assert answered.first_line == "HTTP/1.1 413 No"
    assert (await client.message()).status == 200
    assert len(rig.alpha.lines) == 2


async def test_an_upstream_that_stops_talking_amid_an_upload_is_given_up(rig: RelayRig) -> None:
    """If the upstream closes its side during an upload, the client gets 502."""
    rig.alpha.listens.clear()
    client = await rig.send(post(b"a" * 8_000_000, target="/x?model=alpha"))
    await come_true(lambda: rig.alpha.lines and rig.alpha.lines[0].wire.is_spoken_to)
    rig.alpha.lines[0].wire.say_goodbye()
    answered = await client.message()
    rig.alpha.listens.set()

    assert answered.status == 502
