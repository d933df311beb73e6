"""When a lease is given back: after the last byte of the upstream, or within milliseconds of a hang-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import come_true, spec
from tests.support.relay_rig import HELLO, chat, get, turns
from tests.support.transport import PROMPTLY_S, End

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.relay.conftest import OpenHouse
    from tests.support.relay_rig import RelayHouse
    from tests.support.transport import Wire

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def hang_up(client: Wire) -> None:
    client.hang_up()


def say_goodbye(client: Wire) -> None:
    client.say_goodbye()


def reset(client: Wire) -> None:
    client.reset()


leaving = pytest.mark.parametrize("leave", [hang_up, say_goodbye, reset])


async def test_the_lease_ends_with_the_upstreams_message(house: RelayHouse) -> None:
    """A client that does not read its last buffer does not block a swap."""
    client = await house.client(receive_buffer=16 << 10)
    await client.send(chat())
    call = await house.alpha.call()
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)
    await come_true(lambda: house.in_flight() == 0)
    other = await house.send(chat("beta"))
    await (await house.upstreams["beta"].call()).say(HELLO)

    assert (await other.message()).status == 200
    assert len((await client.message()).body) == 200_000


@leaving
async def test_a_client_that_leaves_the_line_is_forgotten(house: RelayHouse, leave: Callable[[Wire], None]) -> None:
    """No model is loaded for a disconnected client."""
    _, call = await house.reached(chat())
    waiting = await house.send(chat("beta"))
    await come_true(lambda: house.waiting() == 1)
    leave(waiting)
    await come_true(lambda: house.waiting() == 0, PROMPTLY_S)
    await call.say(HELLO)
    await come_true(lambda: house.in_flight() == 0)

    assert house.phase("beta") == "cold"
    assert [(entry.model, entry.status) for entry in house.notebook.entries] == [("beta", 499), ("alpha", 200)]


@leaving
async def test_a_client_that_leaves_while_its_model_loads_is_forgotten(
    house: RelayHouse, leave: Callable[[Wire], None]
) -> None:
    """The load may continue, but nothing is forwarded."""
    client = await house.send(chat("slow"))
    await come_true(lambda: house.hands.is_starting("slow"))
    leave(client)
    await come_true(lambda: house.waiting() == 0, PROMPTLY_S)
    house.hands.become_ready("slow")
    await come_true(lambda: house.phase("slow") != "loading")

    assert house.upstreams["slow"].requests == 0


@leaving
async def test_a_client_that_leaves_while_it_waits_is_seen_behind_what_it_pipelined(
    house: RelayHouse, leave: Callable[[Wire], None]
) -> None:
    """More requests behind the first do not hide the hang-up."""
    client = await house.send(chat("slow"))
    await come_true(lambda: house.waiting() == 1)
    await client.send(chat("slow") * 100)
    leave(client)

    await come_true(lambda: house.waiting() == 0, PROMPTLY_S)
    house.hands.become_ready("slow")


@leaving
async def test_a_client_that_leaves_before_the_answer_frees_the_upstream(
    house: RelayHouse, leave: Callable[[Wire], None]
) -> None:
    """A long prefill stops when nobody waits for it."""
    client, call = await house.reached(chat())
    leave(client)

    assert await call.ended() in End
    await come_true(lambda: house.in_flight() == 0, PROMPTLY_S)
    assert house.notebook.entries[0].status == 499
    assert house.notebook.entries[0].first_byte_s is None


@leaving
async def test_a_client_that_leaves_amid_a_stream_frees_the_upstream(
    house: RelayHouse, leave: Callable[[Wire], None]
) -> None:
    """Tokens that nobody reads are not made."""
    client, call = await house.reached(chat())
    await call.say(CHUNKED + b"5\r\nhello\r\n")
    await client.read_until(b"hello\r\n")
    leave(client)

    assert await call.ended() in End
    await come_true(lambda: house.in_flight() == 0, PROMPTLY_S)


async def test_a_client_that_leaves_without_reading_frees_the_upstream(open_house: OpenHouse) -> None:
    """A FIN counts at once, though the client has not read what was sent before."""
    house = await open_house(send_buffer=16 << 10)
    client = await house.client(receive_buffer=16 << 10)
    await client.send(chat())
    call = await house.alpha.call()
    await call.say(CHUNKED + b"20000\r\n" + b"x" * 0x10000)
    await turns()
    await call.say(b"x" * 0x8000)
    await turns()
    client.say_goodbye()

    assert await call.ended() in End
    await come_true(lambda: house.in_flight() == 0)


async def test_a_farewell_with_the_request_is_a_farewell(house: RelayHouse) -> None:
    """A FIN right behind a complete request takes it back."""
    client = await house.client()
    await client.send(chat("slow"))
    client.say_goodbye()
    await come_true(lambda: house.notebook.entries)

    assert house.notebook.entries[0].status == 499
    assert await client.end() is End.CLOSED
    assert house.upstreams["slow"].requests == 0


async def test_a_client_that_leaves_while_we_dial_is_forgotten(house: RelayHouse) -> None:
    """A connection that comes about too late is closed."""
    house.alpha.stop_accepting()
    client = await house.send(chat())
    await come_true(lambda: house.in_flight() == 1)
    client.hang_up()
    await come_true(lambda: house.in_flight() == 0, PROMPTLY_S)

    assert house.notebook.entries[0].status == 499


async def test_what_a_departed_client_pipelined_is_not_served(house: RelayHouse) -> None:
    """Requests behind the one it left are dropped with it."""
    client, call = await house.reached(chat() + chat() + chat())
    client.hang_up()
    await call.ended()
    await come_true(lambda: house.relay.clients == 0)

    assert house.alpha.requests == 1
    assert len(house.notebook.entries) == 1


async def test_a_client_that_leaves_after_its_answer_leaves_the_upstream_alone(house: RelayHouse) -> None:
    """Its connection returns to the pool and serves the next request."""
    await house.exchange(get())
    await come_true(lambda: house.relay.clients == 0)
    await house.exchange(get())

    assert len(house.alpha.lines) == 1


@pytest.mark.usefixtures("many_files")
async def test_a_flood_of_one_address_leaves_room_for_others(open_house: OpenHouse) -> None:
    """700 requests for a busy model are more than may wait; other clients can still queue, for any model."""
    house = await open_house(models=(spec("alpha", concurrency_limit=1), spec("beta")))
    await house.reached(chat())
    flood = [await house.send(chat()) for _ in range(700)]
    await come_true(lambda: house.notebook.refusals.count("line_full") == 700 - 384)
    for model in ("alpha", "beta"):
        person = await house.client(source="127.0.0.2")
        await person.send(chat(model))

    await come_true(lambda: house.waiting() == 384 + 2)
    for client in flood:
        client.hang_up()


async def test_whoever_waited_is_told_how_long_and_why(house: RelayHouse) -> None:
    """The response head shows a swap; a response without a wait has no such header."""
    client, call = await house.reached(chat())
    other = await house.send(chat("beta"))
    await come_true(lambda: house.waiting() == 1)
    await house.later(7)
    await call.say(HELLO)
    at_once = await client.message()
    await (await house.upstreams["beta"].call()).say(HELLO)
    waited = await other.message()

    assert b"Hotseat-" not in at_once.raw
    assert b"\r\nHotseat-Waited: 7." in waited.raw
    assert b"\r\nHotseat-Why: waited for beta to load after evicting alpha\r\n" in waited.raw
