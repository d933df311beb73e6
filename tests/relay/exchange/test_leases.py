"""When a lease is released: after the upstream's last byte, or within milliseconds of a disconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.fake_launcher import spec
from tests.support.relay_rig import HELLO, chat, get, turns
from tests.support.transport import End, promptly
from tests.support.waiting import come_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.transport import Wire

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def hang_up(client: Wire) -> None:
    client.hang_up()


def say_goodbye(client: Wire) -> None:
    client.say_goodbye()


def reset(client: Wire) -> None:
    client.reset()


leaving = pytest.mark.parametrize("leave", [hang_up, say_goodbye, reset])


async def test_the_lease_ends_with_the_upstreams_message(rig: RelayRig) -> None:
    """A client that has not read its response does not delay a swap."""
    client = await rig.client(receive_buffer=16 << 10)
    await client.send(chat())
    call = await rig.alpha.call()
    await call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000)
    await come_true(lambda: rig.in_flight() == 0)
    other = await rig.send(chat("beta"))
    await (await rig.upstreams["beta"].call()).say(HELLO)

    assert (await other.message()).status == 200
    assert len((await client.message()).body) == 200_000


@leaving
async def test_a_client_that_leaves_the_line_is_forgotten(rig: RelayRig, leave: Callable[[Wire], None]) -> None:
    """A client that disconnects leaves the queue, and its model is not loaded."""
    _, call = await rig.reached(chat())
    waiting = await rig.send(chat("beta"))
    await come_true(lambda: rig.waiting() == 1)
    leave(waiting)
    await promptly(come_true(lambda: rig.waiting() == 0))
    await call.say(HELLO)
    await come_true(lambda: rig.in_flight() == 0)

    assert rig.phase("beta") == "cold"
    assert [(entry.model, entry.status) for entry in rig.activity.entries] == [("beta", 499), ("alpha", 200)]


@leaving
async def test_a_client_that_leaves_while_its_model_loads_is_forgotten(
    rig: RelayRig, leave: Callable[[Wire], None]
) -> None:
    """If the client disconnects during the load, nothing is forwarded."""
    client = await rig.send(chat("slow"))
    await come_true(lambda: rig.launcher.is_starting("slow"))
    leave(client)
    await promptly(come_true(lambda: rig.waiting() == 0))
    rig.launcher.become_ready("slow")
    await come_true(lambda: rig.phase("slow") != "loading")

    assert rig.upstreams["slow"].requests == 0


@leaving
async def test_a_client_that_leaves_while_it_waits_is_seen_behind_what_it_pipelined(
    rig: RelayRig, leave: Callable[[Wire], None]
) -> None:
    """Pipelined requests do not hide a disconnect."""
    client = await rig.send(chat("slow"))
    await come_true(lambda: rig.waiting() == 1)
    await client.send(chat("slow") * 100)
    leave(client)

    await promptly(come_true(lambda: rig.waiting() == 0))
    rig.launcher.become_ready("slow")


@leaving
async def test_a_client_that_leaves_before_the_answer_frees_the_upstream(
    rig: RelayRig, leave: Callable[[Wire], None]
) -> None:
    """A disconnect before the response closes the upstream connection and releases the lease."""
    client, call = await rig.reached(chat())
    leave(client)

    assert await call.ended() in End
    await promptly(come_true(lambda: rig.in_flight() == 0))
    assert rig.activity.entries[0].status == 499
    assert rig.activity.entries[0].first_byte_s is None


@leaving
async def test_a_client_that_leaves_amid_a_stream_frees_the_upstream(
    rig: RelayRig, leave: Callable[[Wire], None]
) -> None:
    """A disconnect during a stream closes the upstream connection and releases the lease."""
    client, call = await rig.reached(chat())
    await call.say(CHUNKED + b"5\r\nhello\r\n")
    await client.read_until(b"hello\r\n")
    leave(client)

    assert await call.ended() in End
    await promptly(come_true(lambda: rig.in_flight() == 0))


async def test_a_client_that_leaves_without_reading_frees_the_upstream(open_rig: OpenRig) -> None:
    """A FIN ends the request even if the client has not read what was sent."""
    rig = await open_rig(send_buffer=16 << 10)
    client = await rig.client(receive_buffer=16 << 10)
    await client.send(chat())
    call = await rig.alpha.call()
    await call.say(CHUNKED + b"20000\r\n" + b"x" * 0x10000)
    await turns()
    await call.say(b"x" * 0x8000)
    await turns()
    client.say_goodbye()

    assert await call.ended() in End
    await come_true(lambda: rig.in_flight() == 0)


async def test_a_disconnect_right_after_the_request_cancels_it(rig: RelayRig) -> None:
    """A FIN right after a request cancels it."""
    client = await rig.client()
    await client.send(chat("slow"))
    client.say_goodbye()
    await come_true(lambda: rig.activity.entries)

    assert rig.activity.entries[0].status == 499
    assert await client.end() is End.CLOSED
    assert rig.upstreams["slow"].requests == 0


async def test_a_client_that_leaves_while_we_connect_is_forgotten(rig: RelayRig) -> None:
    """A disconnect while the upstream is being connected releases the lease."""
    rig.alpha.stop_accepting()
    client = await rig.send(chat())
    await come_true(lambda: rig.in_flight() == 1)
    client.hang_up()
    await promptly(come_true(lambda: rig.in_flight() == 0))

    assert rig.activity.entries[0].status == 499


async def test_what_a_departed_client_pipelined_is_not_served(rig: RelayRig) -> None:
    """Requests pipelined behind an abandoned one are not served."""
    client, call = await rig.reached(chat() + chat() + chat())
    client.hang_up()
    await call.ended()
    await come_true(lambda: len(rig.relay.connections.open) == 0)

    assert rig.alpha.requests == 1
    assert len(rig.activity.entries) == 1


async def test_a_client_that_leaves_after_its_answer_leaves_the_upstream_alone(rig: RelayRig) -> None:
    """After a complete response the upstream connection is reused, even if the client disconnects."""
    await rig.exchange(get())
    await come_true(lambda: len(rig.relay.connections.open) == 0)
    await rig.exchange(get())

    assert len(rig.alpha.lines) == 1


@pytest.mark.usefixtures("many_files")
async def test_a_flood_of_one_address_does_not_keep_others_out(open_rig: OpenRig) -> None:
    """An address with 700 requests gets three quarters of the queue, and another client can still queue."""
    rig = await open_rig(models=(spec("alpha", concurrency_limit=1), spec("beta")))
    await rig.reached(chat())
    flood = [await rig.send(chat()) for _ in range(700)]
    await come_true(lambda: rig.activity.refusals.count("queue_full") == 700 - 384)
    for model in ("alpha", "beta"):
        person = await rig.client(source="127.0.0.2")
        await person.send(chat(model))

    await come_true(lambda: rig.waiting() == 384 + 2)
    for client in flood:
        client.hang_up()


async def test_a_response_after_a_wait_has_its_length_and_reason(rig: RelayRig) -> None:
    """A response after a swap has Hotseat-Waited and Hotseat-Why; one without a wait has neither."""
    rig.stop_clocks()
    client, call = await rig.reached(chat())
    other = await rig.send(chat("beta"))
    await come_true(lambda: rig.waiting() == 1)
    await rig.later(7)
    await call.say(HELLO)
    at_once = await client.message()
    await (await rig.upstreams["beta"].call()).say(HELLO)
    waited = await other.message()

    assert b"Hotseat-" not in at_once.raw
    assert b"\r\nHotseat-Waited: 7." in waited.raw
    assert b"\r\nHotseat-Why: waited for beta to load after evicting alpha\r\n" in waited.raw
    await come_true(lambda: len(rig.activity.entries) == 2)
    assert rig.activity.entries[-1].why == "waited for beta to load after evicting alpha"
