"""How the relay closes: nobody new, everybody else finishes, until the time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get
from tests.support.transport import PROMPTLY_S, End, within
from tests.support.waiting import come_true

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.relay_rig import RelayRig

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    tasks = Tasks()
    yield tasks
    await tasks.aclose()


async def test_nobody_new_is_accepted(rig: RelayRig) -> None:
    """The address is free again."""
    await rig.relay.drain(within=1)

    with pytest.raises(ConnectionRefusedError):
        await rig.client()


async def test_idle_connections_are_closed_at_once(rig: RelayRig) -> None:
    """Between requests, and before the first."""
    fresh = await rig.client()
    used, call = await rig.reached(get())
    await call.say(HELLO)
    await used.message()
    await come_true(lambda: rig.relay.clients == 2)
    await within(PROMPTLY_S, rig.relay.drain(within=5))

    assert await fresh.end() is End.CLOSED
    assert await used.end() is End.CLOSED


async def test_requests_in_flight_are_answered_and_closed(rig: RelayRig, tasks: Tasks) -> None:
    """The response announces that it is the last on its connection."""
    client, call = await rig.reached(chat())
    draining = tasks.start(rig.relay.drain(within=5), "drain")
    await come_true(lambda: rig.relay.is_draining)
    await call.say(HELLO)
    answered = await client.message()

    assert answered.body == b"hello"
    assert answered["Connection"] == "close"
    assert await client.end() is End.CLOSED
    client.hang_up()
    await within(5, draining)


async def test_a_stream_in_flight_finishes(rig: RelayRig, tasks: Tasks) -> None:
    """Its head promised keep-alive long ago; it is closed after its last chunk all the same."""
    client, call = await rig.reached(chat())
    await call.say(CHUNKED)
    await client.read_until(b"\r\n\r\n")
    draining = tasks.start(rig.relay.drain(within=5), "drain")
    await come_true(lambda: rig.relay.is_draining)
    await call.say(b"0\r\n\r\n")

    assert await client.end() is End.CLOSED
    assert client.unread == b"0\r\n\r\n"
    await within(5, draining)


async def test_a_body_on_its_way_is_still_taken(rig: RelayRig, tasks: Tasks) -> None:
    """The request had begun before the shutdown."""
    client = await rig.send(chat()[:-5])
    await come_true(lambda: rig.relay.bodies.in_memory)
    tasks.start(rig.relay.drain(within=5), "drain")
    await come_true(lambda: rig.relay.is_draining)
    await client.send(chat()[-5:])
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message())["Connection"] == "close"


async def test_a_refusal_while_closing_is_the_last_answer(rig: RelayRig, tasks: Tasks) -> None:
    """Ours or the upstream's, it makes no difference."""
    client = await rig.send(chat("nobody")[:-5])
    await come_true(lambda: rig.relay.bodies.in_memory)
    tasks.start(rig.relay.drain(within=5), "drain")
    await come_true(lambda: rig.relay.is_draining)
    await client.send(chat("nobody")[-5:])

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED


async def test_time_is_up_for_those_who_do_not_finish(rig: RelayRig) -> None:
    """Draining ends after its deadline, and closing cuts what is left."""
    client, call = await rig.reached(chat())
    await within(5, rig.relay.drain(within=0.05))
    assert rig.in_flight() == 1
    await rig.relay.aclose()

    assert await client.end() is End.RESET
    assert await call.ended() in End
    await come_true(lambda: rig.in_flight() == 0)


async def test_closing_without_draining_frees_the_address(rig: RelayRig) -> None:
    """A quick shutdown leaves nothing open either."""
    await rig.relay.aclose()

    with pytest.raises(ConnectionRefusedError):
        await rig.client()


async def test_a_client_that_was_accepted_in_the_last_moment_does_not_delay_the_end(rig: RelayRig) -> None:
    """It is closed as soon as it is seen."""
    client = await rig.client()
    await within(PROMPTLY_S, rig.relay.drain(within=5))

    assert await client.end() in End
    assert rig.relay.clients == 0


async def test_whoever_watches_hotseat_does_not_hold_it_up(rig: RelayRig) -> None:
    """A feed of events or logs would never end by itself, so it is cut and the shutdown continues at once."""
    client = await rig.send(get("/hotseat/events"))
    feed = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n"
    await (await rig.management.call()).say(feed)
    await client.read_until(b": hi\n\r\n")
    await within(2, rig.relay.drain(within=30))

    assert await client.end() is End.RESET
