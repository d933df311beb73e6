"""Data is relayed to the client at once, and never more than the client reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.endless_upstream import MOST_IN_BETWEEN, EndlessUpstream
from tests.support.relay_rig import HELLO, chat, get, post, turns
from tests.support.transport import DEADLINE_S, End, within
from tests.support.waiting import come_true

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = 16 << 10
"""A receive buffer that keeps the kernel from hiding a client that does not read."""
TWO_READS = b"x" * 120_000
"""Each half fits into one read; together they are more than a connection takes for a client that does not read."""


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
async def tight(open_rig: OpenRig) -> RelayRig:
    """A relay with small kernel buffers for clients that do not read."""
    return await open_rig(send_buffer=SMALL)


async def test_every_piece_is_passed_on_before_the_next_comes(rig: RelayRig) -> None:
    """Each chunk reaches the client before the next one is sent."""
    client, call = await rig.reached(chat())
    await call.say(CHUNKED)
    await client.read_until(b"\r\n\r\n")
    for number in range(20):
        piece = b"2\r\n%02d\r\n" % number
        await call.say(piece)
        assert await client.read_exactly(len(piece)) == piece
    await call.say(b"0\r\n\r\n")

    assert await client.read_exactly(5) == b"0\r\n\r\n"


async def test_no_piece_waits_for_the_acknowledgement_of_the_one_before(rig: RelayRig) -> None:
    """Small pieces are not delayed by 40 ms, as Nagle's algorithm would do."""
    client, took = await rig.client(), []
    for _ in range(50):
        began = rig.relay.context.now()
        await client.send(get())
        call = await rig.alpha.call()
        await call.say(HELLO[:-5])
        await turns()
        await call.say(HELLO[-5:])
        await client.message()
        took.append(rig.relay.context.now() - began)

    assert sorted(took)[len(took) // 4] < 0.03  # on a busy machine many of them are held up


async def test_a_head_is_passed_on_before_its_body_comes(rig: RelayRig) -> None:
    """The response head reaches the client before the first chunk."""
    client, call = await rig.reached(chat())
    await call.say(CHUNKED)

    assert (await client.read_until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    await call.say(b"0\r\n\r\n")
    assert await client.read_exactly(5) == b"0\r\n\r\n"


async def test_a_client_that_does_not_read_stops_the_upstream(rig: RelayRig, tasks: Tasks) -> None:
    """If the client does not read, only a bounded amount is read from the upstream; reading resumes it."""
    client = await rig.client(receive_buffer=SMALL)
    await client.send(get())
    call = await rig.alpha.call()
    await call.say(CHUNKED)
    upstream = EndlessUpstream(call.line)
    most = 2 * MOST_IN_BETWEEN
    flow = tasks.start(upstream.flow(most), "flow")
    await upstream.stands_still()
    stopped_at = upstream.sent
    await client.read_until(b"\r\n\r\n")
    for _ in range(0, most, 1 << 20):
        await client.read_exactly(1 << 20)
    await flow

    assert 0 < stopped_at < MOST_IN_BETWEEN
    assert upstream.sent >= most


async def test_a_connection_that_was_stopped_serves_the_next_request(rig: RelayRig) -> None:
    """An upstream connection that was paused is reused for later requests."""
    answer = with_length(b"x" * 4_000_000)
    client = await rig.client(receive_buffer=SMALL)
    await client.send(get())
    call = await rig.alpha.call()
    saying = Tasks().start(call.say(answer), "say")
    body = (await client.message()).body
    await saying
    for _ in range(3):
        assert (await rig.exchange(get()))[1].body == b"hello"

    assert len(body) == 4_000_000
    assert len(rig.alpha.lines) == 1


async def test_answers_do_not_pile_up_for_a_client_that_does_not_read(tight: RelayRig, tasks: Tasks) -> None:
    """The next pipelined request is forwarded only when the client has read the response before it."""
    client = await tight.client(receive_buffer=SMALL)
    await client.send(get() * 5)
    await overflow(await tight.alpha.call())
    await come_true(lambda: tight.in_flight() == 0)
    await client.send(get() * 5)
    await turns()
    served = tight.alpha.requests

    async def serve() -> None:
        while True:
            await overflow(await tight.alpha.call())

    tasks.start(serve(), "serve")
    for _ in range(10):
        assert (await client.message()).body == TWO_READS
    assert served == 1


async def test_a_client_that_takes_nothing_for_long_is_cut(rig: RelayRig, tasks: Tasks) -> None:
    """A client that reads nothing for idleTimeout is reset, and its lease is released."""
    client = await rig.client(receive_buffer=SMALL)
    await client.send(get())
    call = await rig.alpha.call()
    await call.say(CHUNKED)
    upstream = EndlessUpstream(call.line)
    tasks.start(_until_cut(upstream), "flow")
    await upstream.stands_still()
    assert rig.in_flight() == 1
    await rig.later(61)
    await come_true(lambda: rig.in_flight() == 0)

    assert await client.end() is End.RESET
    assert await call.ended() in End
    assert rig.activity.entries[0].status == 499


async def _until_cut(upstream: EndlessUpstream) -> None:
    try:
        await upstream.flow(1 << 40)
    except OSError:
        return


async def test_a_client_that_takes_little_is_not_cut(tight: RelayRig, tasks: Tasks) -> None:
    """A client that reads slowly but steadily is not cut."""
    client = await tight.client(receive_buffer=SMALL)
    await client.send(get())
    call = await tight.alpha.call()
    tasks.start(call.say(with_length(b"x" * 2_000_000)), "say")
    await client.read_until(b"\r\n\r\n")
    for _ in range(4):
        await client.read_exactly(200_000)
        await tight.later(40)
        await tight.clocks_seen()

    assert await client.read_exactly(1_200_000) == b"x" * 1_200_000


async def overflow(call: Call) -> None:
    """An answer whose last piece is more than the client's connection takes, and is read whole all the same."""
    last = TWO_READS[60_000:]
    await call.say(with_length(TWO_READS).removesuffix(last))
    await turns()
    await call.say(last)


async def pass_minutes_until_gone(rig: RelayRig) -> None:
    """Advance the clocks until no connection is open; a sweep that comes late checks nothing."""
    while rig.relay.connections.open:
        await rig.later(61)
        await rig.clocks_seen()


async def closing_answer(rig: RelayRig) -> Wire:
    """A client that wanted to close and does not read; the upstream is done, the relay is not."""
    client = await rig.client(receive_buffer=SMALL)
    await client.send(get("/x?model=alpha", "Connection: close"))
    call = await rig.alpha.call()
    await overflow(call)
    await come_true(lambda: rig.in_flight() == 0)
    return client


async def test_the_last_bytes_of_a_closing_answer_may_be_read_at_leisure(tight: RelayRig) -> None:
    """A client with `Connection: close` may read its response slowly."""
    client = await closing_answer(tight)
    for _ in range(3):
        await tight.later(3)
        await tight.clocks_seen()

    assert (await client.message()).body == TWO_READS
    assert await client.end() is End.CLOSED


async def test_a_closing_answer_that_nobody_reads_is_cut_in_the_end(tight: RelayRig) -> None:
    """A closing response that nobody reads is reset after a while."""
    client = await closing_answer(tight)
    await within(DEADLINE_S, pass_minutes_until_gone(tight))

    assert await client.end() is End.RESET


async def test_a_closed_connection_whose_end_nobody_acknowledges_is_cut(tight: RelayRig) -> None:
    """A closing response is also cut if the client closed its own side without reading."""
    client = await closing_answer(tight)
    client.say_goodbye()
    await within(DEADLINE_S, pass_minutes_until_gone(tight))


async def test_a_large_upload_does_not_pile_up_for_a_slow_upstream(rig: RelayRig) -> None:
    """A body on disk takes no memory while the upstream does not read."""
    rig.alpha.listens.clear()
    body = b"x" * 30_000_000
    client = await rig.client()
    await client.send(post(body, target="/x?model=alpha"))
    await come_true(lambda: rig.alpha.lines)
    buffered = rig.relay.context.bodies.in_memory
    rig.alpha.listens.set()
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert buffered == 0
    assert call.request.body == body
    assert (await client.message()).status == 200
