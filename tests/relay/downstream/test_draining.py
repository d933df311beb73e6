"""How the relay closes: no new clients, and the others finish until the time is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get, turns
from tests.support.transport import DEADLINE_S, End, promptly, within
from tests.support.waiting import come_true

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig

    from hotseat.tasks import Tasks

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_nobody_new_is_accepted(rig: RelayRig) -> None:
    """After a drain new connections are refused."""
    await rig.relay.drain(within=1)

    with pytest.raises(ConnectionRefusedError):
        await rig.client()


async def test_idle_connections_are_closed_at_once(rig: RelayRig) -> None:
    """Connections between requests, and before the first one, are closed at once."""
    fresh = await rig.client()
    used, call = await rig.reached(get())
    await call.say(HELLO)
    await used.message()
    await come_true(lambda: len(rig.relay.connections.open) == 2)
    await promptly(rig.relay.drain(within=60))

    assert await fresh.end() is End.CLOSED
    assert await used.end() is End.CLOSED


async def test_requests_in_flight_are_answered_and_closed(rig: RelayRig, tasks: Tasks) -> None:
    """A request in flight gets its response with `Connection: close`."""
    client, call = await rig.reached(chat())
    draining = tasks.start(rig.relay.drain(within=60), "drain")
    await come_true(lambda: rig.relay.context.is_draining)
    await call.say(HELLO)
    answered = await client.message()

    assert answered.body == b"hello"
    assert answered["Connection"] == "close"
    assert await client.end() is End.CLOSED
    client.hang_up()
    await within(DEADLINE_S, draining)


async def test_a_stream_in_flight_finishes(rig: RelayRig, tasks: Tasks) -> None:
    """A stream in flight finishes, and its connection is closed after the last chunk."""
    client, call = await rig.reached(chat())
    await call.say(CHUNKED)
    await client.read_until(b"\r\n\r\n")
    draining = tasks.start(rig.relay.drain(within=60), "drain")
    await come_true(lambda: rig.relay.context.is_draining)
    await call.say(b"0\r\n\r\n")

    assert await client.end() is End.CLOSED
    assert client.unread == b"0\r\n\r\n"
    await within(DEADLINE_S, draining)


async def test_a_body_on_its_way_is_still_taken(rig: RelayRig, tasks: Tasks) -> None:
    """A request whose body is still arriving is served."""
    client = await rig.send(chat()[:-5])
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    tasks.start(rig.relay.drain(within=60), "drain")
    await come_true(lambda: rig.relay.context.is_draining)
    await client.send(chat()[-5:])
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message())["Connection"] == "close"


async def test_a_refusal_while_closing_is_the_last_answer(rig: RelayRig, tasks: Tasks) -> None:
    """An error during a drain has `Connection: close`."""
    client = await rig.send(chat("nobody")[:-5])
    await come_true(lambda: rig.relay.context.bodies.in_memory)
    tasks.start(rig.relay.drain(within=60), "drain")
    await come_true(lambda: rig.relay.context.is_draining)
    await client.send(chat("nobody")[-5:])

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED


async def test_time_is_up_for_those_who_do_not_finish(rig: RelayRig) -> None:
    """A drain ends after its time limit, and closing cuts the remaining requests."""
    client, call = await rig.reached(chat())
    await within(DEADLINE_S, rig.relay.drain(within=0.05))
    assert rig.in_flight() == 1
    await rig.relay.aclose()

    assert await client.end() is End.RESET
    assert await call.ended() in End
    await come_true(lambda: rig.in_flight() == 0)


async def test_closing_without_draining_frees_the_address(rig: RelayRig) -> None:
    """After closing without a drain, new connections are refused."""
    await rig.relay.aclose()

    with pytest.raises(ConnectionRefusedError):
        await rig.client()


async def test_a_client_that_was_accepted_in_the_last_moment_does_not_delay_the_end(rig: RelayRig) -> None:
    """A client that connects just before the drain is closed promptly."""
    client = await rig.client()
    await promptly(rig.relay.drain(within=60))

    assert await client.end() in End
    assert len(rig.relay.connections.open) == 0


async def test_whoever_watches_hotseat_does_not_hold_it_up(rig: RelayRig) -> None:
    """A drain cuts event feeds instead of waiting for them."""
    client = await rig.send(get("/hotseat/events"))
    feed = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n"
    await (await rig.management.call()).say(feed)
    await client.read_until(b": hi\n\r\n")
    await promptly(rig.relay.drain(within=60))

    assert await client.end() is End.RESET


async def test_another_process_accepts_from_now_on(rig: RelayRig, tasks: Tasks) -> None:
    """An idle client may send one more request, whose response ends its connection; then all is finished."""
    client = await rig.client()
    await come_true(lambda: rig.relay.connections.open)
    finishing = tasks.start(rig.relay.finish(60, rig.relay.context.management), "finish")
    await come_true(lambda: rig.relay.context.is_draining)
    await client.send(chat())
    await (await rig.alpha.call()).say(HELLO)
    answered = await client.message()

    assert answered["Connection"] == "close"
    assert await client.end() is End.CLOSED
    client.hang_up()
    await promptly(finishing)


async def test_a_client_comes_just_after_the_last_one_has_left(rig: RelayRig, tasks: Tasks) -> None:
    """It was accepted before: the relay waits for it, too."""
    first, connections = await rig.client(), rig.relay.connections
    await come_true(lambda: connections.open)
    finishing = tasks.start(rig.relay.finish(60, rig.relay.context.management), "finish")
    await come_true(lambda: rig.relay.context.is_draining)
    late = rig.connection()
    connections.part(late)
    connections.open.add(late)
    connections.count.add(late.peer, rig.relay.context.policy.limits, is_proxy=False)
    await turns()

    assert not finishing.done()
    first.hang_up()
    await promptly(finishing)
