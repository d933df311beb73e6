"""The time limits of clients, and the response when one is exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import come_true
from tests.support.relay_rig import HELLO, chat, chunked, get
from tests.support.transport import End

from hotseat.settings import Access

if TYPE_CHECKING:
    from tests.relay.conftest import OpenHouse
    from tests.support.relay_rig import RelayHouse
    from tests.support.transport import Wire


PREFLIGHT = get("/v1/x", "Origin: http://a.example", "Access-Control-Request-Method: POST", method="OPTIONS")


async def no_answer(house: RelayHouse, client: Wire, after: float) -> None:
    """The relay has swept its deadlines since, and sent nothing."""
    await house.later(after)
    await house.clocks_seen()
    with pytest.raises(BlockingIOError):
        client.sock.recv(1)


async def test_a_head_that_does_not_come_to_its_end_is_given_up(house: RelayHouse) -> None:
    """Trickling a head does not extend its time."""
    client = await house.send(get()[:-10])
    await no_answer(house, client, 6)
    await client.send(b"X")
    await house.later(5)
    answered = await client.message()

    assert answered.status == 408
    assert await client.end() is End.CLOSED


async def test_a_body_that_stops_coming_is_given_up(house: RelayHouse) -> None:
    """A client that continues to send has time; one that stops does not."""
    client = await house.send(chat()[:-2])
    await come_true(lambda: house.relay.bodies.in_memory)
    await no_answer(house, client, 29)
    await client.send(chat()[-2:-1])
    await no_answer(house, client, 29)
    await house.later(2)
    answered = await client.message()

    assert answered.status == 408
    assert house.relay.bodies.in_memory == 0


async def test_a_body_that_never_begins_has_the_time_of_a_body(house: RelayHouse) -> None:
    """A client may think before it sends."""
    client = await house.send(chat("alpha", "Expect: 100-continue")[:-17])
    await client.message()
    await no_answer(house, client, 29)
    await house.later(2)

    assert (await client.message()).status == 408


async def test_a_connection_on_which_nothing_comes_is_closed(house: RelayHouse) -> None:
    """There is no response, since there was no request."""
    client = await house.client()
    await come_true(lambda: house.relay.clients)
    await house.later(11)

    assert await client.end() is End.CLOSED
    assert client.unread == b""


@pytest.mark.parametrize(
    "request_bytes",
    [get("/x?model=nobody"), chat("nobody"), PREFLIGHT],
    ids=["refused at its head", "refused with its body", "preflight"],
)
async def test_an_idle_connection_is_closed_whatever_was_answered(open_house: OpenHouse, request_bytes: bytes) -> None:
    """That holds after our own responses too, or refused clients could use up the connections."""
    house = await open_house(access=Access(allowed_origins=("http://a.example",)))
    client = await house.send(request_bytes)
    await client.message()
    await no_answer(house, client, 59)
    await house.later(2)

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_an_idle_connection_is_closed_after_an_answer(house: RelayHouse) -> None:
    """Keep-alive has an end."""
    client, call = await house.reached(get())
    await call.say(HELLO)
    await client.message()
    await no_answer(house, client, 59)
    await house.later(2)

    assert await client.end() is End.CLOSED


async def test_waiting_for_a_model_takes_as_long_as_it_takes(house: RelayHouse) -> None:
    """The client's clocks stand still while we are the ones who are slow."""
    client, call = await house.reached(chat())
    await no_answer(house, client, 3600)
    await call.say(HELLO)

    assert (await client.message()).status == 200


@pytest.mark.parametrize("behind", [get()[:-10], chat()[:-3]], ids=["head", "body"])
async def test_a_half_read_request_waits_while_another_is_served(house: RelayHouse, behind: bytes) -> None:
    """The rest of it is unread in our buffer, so its timer does not run."""
    rest = {get()[:-10]: get()[-10:], chat()[:-3]: chat()[-3:]}[behind]
    client, call = await house.reached(chat() + behind)
    await client.send(rest)
    await no_answer(house, client, 3600)
    await call.say(HELLO)
    await (await house.alpha.call()).say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize("behind", [get()[:-10], chat()[:-3]], ids=["head", "body"])
async def test_the_time_of_a_half_read_request_runs_on_after_the_answer_before_it(
    house: RelayHouse, behind: bytes
) -> None:
    """Nobody holds a connection for ever with half a request."""
    client, call = await house.reached(chat() + behind)
    await call.say(HELLO)
    first = await client.message()
    await house.later(31)

    assert first.status == 200
    assert (await client.message()).status == 408


async def test_a_slow_upload_does_not_hold_a_model(house: RelayHouse) -> None:
    """The lease is asked for when the body is there."""
    client = await house.send(get("/v1/x", "Transfer-Encoding: chunked", method="POST") + chunked(b'{"mod')[:-5])
    await come_true(lambda: house.relay.bodies.in_memory)

    assert house.phase("alpha") == "cold"
    await client.send(chunked(b'el":"alpha"}'))
    await (await house.alpha.call()).say(HELLO)
    assert (await client.message()).status == 200
