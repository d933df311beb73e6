"""A client's connection over several requests: order, keep-alive and closing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, get, post, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.settings import Access, Limits
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

UNKNOWN = get("/x?model=nobody")


async def test_pipelined_requests_are_answered_in_their_order(rig: RelayRig) -> None:
    """The second pipelined request is forwarded only after the first one's response."""
    client, first = await rig.reached(get("/one?model=alpha") + get("/two?model=alpha"))
    assert rig.alpha.requests == 1
    await first.say(HELLO.replace(b"hello", b"first"))
    second = await rig.alpha.call()
    await second.say(HELLO)

    assert second.request.first_line == "GET /two?model=alpha HTTP/1.1"
    assert [(await client.message()).body for _ in range(2)] == [b"first", b"hello"]


async def test_a_refusal_waits_for_its_turn(rig: RelayRig) -> None:
    """Garbage behind a request gets its 400 after the request's response."""
    client, call = await rig.reached(chat() + b"garbage\r\n\r\n")
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 400]
    assert await client.end() is End.CLOSED


async def test_refusals_and_answers_keep_their_order(rig: RelayRig) -> None:
    """hotseat's own errors and upstream responses are sent in the order of their requests."""
    client, call = await rig.reached(UNKNOWN + get() + UNKNOWN + get())
    await call.say(HELLO)
    await (await rig.alpha.call()).say(HELLO)

    assert [(await client.message()).status for _ in range(4)] == [404, 200, 404, 200]


async def test_many_refusals_in_one_piece_are_all_sent(rig: RelayRig) -> None:
    """250 pipelined requests to unknown models all get 404."""
    client = await rig.send(UNKNOWN * 250)

    assert [(await client.message()).status for _ in range(250)] == [404] * 250


async def test_others_are_served_between_the_refusals_of_one_client(rig: RelayRig) -> None:
    """A request that arrives behind 250 that are refused is answered before the last of them."""
    busy = await rig.send(UNKNOWN * 250)
    other = await rig.send(UNKNOWN)
    await other.message()

    assert len(rig.activity.refusals) < 250
    assert [(await busy.message()).status for _ in range(250)] == [404] * 250


async def test_thousands_of_requests_in_one_piece_are_all_answered(rig: RelayRig) -> None:
    """What the client sends meanwhile does not count as too much: nothing is read before its turn."""
    client = await rig.client()
    sending = Tasks().start(client.send(UNKNOWN * 5000), "send")

    assert [(await client.message()).status for _ in range(5000)] == [404] * 5000
    await sending


async def test_refusals_do_not_pile_up_for_a_client_that_does_not_read(open_rig: OpenRig) -> None:
    """250 errors all reach a client with small buffers."""
    rig = await open_rig(send_buffer=16 << 10)
    client = await rig.client(receive_buffer=16 << 10)
    sending = Tasks().start(client.send(UNKNOWN * 250), "send")
    await turns()

    for _ in range(250):
        assert (await client.message()).status == 404
    await sending


@pytest.mark.parametrize("request_bytes", [chat(), b"\r\n" + get() + chat()], ids=["one", "two"])
async def test_requests_may_be_cut_anywhere(rig: RelayRig, request_bytes: bytes) -> None:
    """A request split at any byte is served like a whole one."""
    expected = request_bytes.count(b"HTTP/1.1")
    client = await rig.client()
    for cut in range(1, len(request_bytes)):
        await client.send(request_bytes[:cut])
        await turns()
        await client.send(request_bytes[cut:])
        for _ in range(expected):
            await (await rig.alpha.call()).say(HELLO)
            assert (await client.message()).body == b"hello"

    assert rig.alpha.requests == expected * (len(request_bytes) - 1)


async def test_requests_sent_while_one_is_served_are_kept_for_later(rig: RelayRig) -> None:
    """Requests that arrive during another one, up to 64 KiB, are served afterwards."""
    body = b'{"model":"alpha","prompt":"%b"}' % (b"a" * 30_000)
    client, call = await rig.reached(get())
    await client.send(post(body) + post(body))
    await call.say(HELLO)
    for _ in range(2):
        call = await rig.alpha.call()
        await call.say(HELLO)
        assert call.request.body == body

    assert [(await client.message()).status for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (UNKNOWN, 404),
        (get("/slots"), 400),
        (chat("nobody"), 404),
        (post(b"{"), 400),
        (get("/", "Sec-Fetch-Site: cross-site"), 403),
    ],
    ids=["unknown in URL", "nothing running", "unknown in body", "bad JSON", "cross-site"],
)
async def test_a_connection_is_usable_after_a_refusal(rig: RelayRig, request_bytes: bytes, status: int) -> None:
    """After an error for a complete request, the connection serves the next request."""
    client = await rig.send(request_bytes)
    refused = await client.message()
    await client.send(chat())
    await (await rig.alpha.call()).say(HELLO)

    assert refused.status == status
    assert refused.all("Connection") == []
    assert (await client.message()).status == 200


@pytest.mark.parametrize(
    "request_bytes", [get("/x?model=nobody", "Connection: close"), chat("nobody", "Connection: close")]
)
async def test_a_refused_client_that_wants_to_close_is_closed(rig: RelayRig, request_bytes: bytes) -> None:
    """An error for a request with `Connection: close` closes the connection."""
    client = await rig.send(request_bytes)

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED


@pytest.mark.parametrize("last", [get("/x?model=nobody", "Connection: close"), chat("nobody", "Connection: close")])
@pytest.mark.parametrize("is_known", [False, True])
async def test_nothing_is_served_behind_a_refused_client_that_wants_to_close(
    rig: RelayRig, last: bytes, is_known: bool
) -> None:
    """Requests behind a refused one with `Connection: close` are not served, cached heads or not."""
    if is_known:
        await rig.exchange(chat())
        await rig.refusal(last)
    asked_before = rig.alpha.requests
    client = await rig.send(last + chat() + chat())

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED
    assert client.unread == b""
    assert rig.alpha.requests == asked_before


async def test_an_answered_client_that_wants_to_close_is_closed(rig: RelayRig) -> None:
    """After a response to `Connection: close` the connection closes, and nothing behind it is served."""
    client, call = await rig.reached(chat("alpha", "Connection: close") + get())
    await call.say(HELLO)

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_an_old_client_is_closed_after_its_answer(rig: RelayRig) -> None:
    """An HTTP/1.0 connection without keep-alive is closed after the response."""
    client, call = await rig.reached(get(version="1.0"))
    await call.say(HELLO)

    assert (await client.message())["Connection"] == "close"
    assert await client.end() is End.CLOSED


async def test_an_old_client_that_asks_for_it_is_kept(rig: RelayRig) -> None:
    """An HTTP/1.0 client with keep-alive gets a keep-alive header, and can reuse the connection."""
    client, call = await rig.reached(get("/slots?model=alpha", "Connection: keep-alive", version="1.0"))
    await call.say(HELLO)
    answered = await client.message()
    await client.send(get())
    await (await rig.alpha.call()).say(HELLO)

    assert answered["Connection"] == "keep-alive"
    assert (await client.message()).status == 200


async def test_an_old_client_learns_that_its_connection_stays_open_after_a_refusal(rig: RelayRig) -> None:
    """Otherwise it would wait for the end of the connection, which does not come."""
    client = await rig.send(get("/upstream/nobody/x", "Connection: keep-alive", version="1.0"))
    refused = await client.message()
    await client.send(get("/upstream/nobody/x", version="1.0"))
    last = await client.message()

    assert (refused.status, refused["Connection"]) == (404, "keep-alive")
    assert (last.status, last["Connection"]) == (404, "close")
    assert await client.end() is End.CLOSED


async def test_an_old_client_whose_request_fails_later(rig: RelayRig) -> None:
    """The same for what is refused after its body was read."""
    client = await rig.send(post(b'{"model":"nobody"}', "Connection: keep-alive", version="1.0"))

    assert (await client.message())["Connection"] == "keep-alive"
    client.hang_up()


async def test_an_old_client_that_is_led_elsewhere(rig: RelayRig) -> None:
    """A redirect of our own does not say that the connection stays open, so it ends."""
    fields = ("Connection: keep-alive", "Accept: text/html")
    client = await rig.send(get("/upstream/alpha/", *fields, version="1.0").replace(b"Host: box", b"Host: localhost"))
    led = await client.message()

    assert led.status == 307
    assert await client.end() is End.CLOSED


async def test_an_old_client_needs_no_host(rig: RelayRig) -> None:
    """An HTTP/1.0 request without Host is served."""
    _, answered = await rig.exchange(b"GET /slots?model=alpha HTTP/1.0\r\n\r\n")

    assert answered.status == 200


async def test_a_refusal_survives_a_client_that_goes_on_sending(open_rig: OpenRig) -> None:
    """A client that keeps sending after a 413 still receives it before the connection closes."""
    rig = await open_rig(limits=Limits(body=1000))
    client = await rig.send(get("/x?model=alpha", "Content-Length: 50000000", method="POST"))
    for _ in range(20):
        await client.send(b"a" * 100_000)

    assert (await client.message()).status == 413
    assert await client.end() is End.CLOSED


async def test_an_answer_survives_what_the_client_sent_behind_its_last_request(rig: RelayRig) -> None:
    """A response arrives complete although the client sent megabytes behind its request."""
    client, call = await rig.reached(get("/x?model=alpha", "Connection: close"))
    sending = Tasks().start(client.send(b"a" * 8_000_000), "send")
    await turns()
    await call.say(HELLO)

    assert (await client.message()).body == b"hello"
    assert await client.end() is End.CLOSED
    await sending


async def test_a_refused_client_that_stays_is_closed(open_rig: OpenRig) -> None:
    """A refused client that stays connected is closed after two seconds."""
    rig = await open_rig()
    client = await rig.send(b"garbage\r\n\r\n")
    await client.message()
    await rig.later(2.1)
    await client.send(b"and")

    assert await client.end() is End.CLOSED
    await come_true(lambda: not rig.relay.connections.open)


async def test_too_many_connections_are_refused(open_rig: OpenRig) -> None:
    """A connection beyond the limit gets 429; the first one is still served."""
    rig = await open_rig(limits=Limits(connections=1))
    first = await rig.send(UNKNOWN)
    await first.message()
    second = await rig.send(chat())
    refused = await second.message()
    await first.send(UNKNOWN)

    assert refused.status == 429
    assert await second.end() is End.CLOSED
    assert (await first.message()).status == 404


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_body_on_one_connection_too_many(open_rig: OpenRig, *, is_known: bool) -> None:
    """It is refused, also with a path for everybody and a head that is known without a body."""
    rig = await open_rig(limits=Limits(connections=1))
    first = await rig.send(get("/health") if is_known else UNKNOWN)
    if is_known:
        await (await rig.management.call()).say(HELLO)
    await first.message()
    refused = await rig.refusal(get("/health", "Content-Length: 5"))

    assert refused.status == 429


async def test_one_address_cannot_lock_out_the_others(open_rig: OpenRig) -> None:
    """The error says that this address has too many; another address is still admitted."""
    rig = await open_rig(limits=Limits(per_address=1))
    first = await rig.send(UNKNOWN)
    await first.message()
    refused = await rig.refusal(chat())
    other = await rig.client(source="127.0.0.2")
    await other.send(UNKNOWN)

    assert refused.status == 429
    assert b"too many connections from this address" in refused.body
    assert (await other.message()).status == 404


async def test_a_proxy_that_is_trusted_may_have_all_connections(open_rig: OpenRig) -> None:
    """The limit per address does not apply to trusted proxies."""
    rig = await open_rig(limits=Limits(per_address=1), access=Access(trusted_proxies=("127.0.0.1",)))
    for _ in range(3):
        client = await rig.send(UNKNOWN)

        assert (await client.message()).status == 404


async def test_an_address_that_left_is_forgotten(open_rig: OpenRig) -> None:
    """An address that disconnected may connect again."""
    rig = await open_rig(limits=Limits(per_address=1))
    for _ in range(3):
        client = await rig.send(UNKNOWN)
        await client.message()
        client.hang_up()
        await come_true(lambda: not rig.relay.connections.open)


async def test_a_refused_head_request_gets_no_body(rig: RelayRig) -> None:
    """An error response to HEAD has no body."""
    client = await rig.send(get("/x?model=nobody", method="HEAD") + UNKNOWN)

    assert (await client.message(to="HEAD")).status == 404
    assert (await client.message()).status == 404


async def test_a_client_that_never_speaks_leaves_no_trace(rig: RelayRig) -> None:
    """A client that connects and leaves is not recorded."""
    client = await rig.client()
    await come_true(lambda: len(rig.relay.connections.open) == 1)
    client.hang_up()
    await come_true(lambda: len(rig.relay.connections.open) == 0)

    assert rig.activity.entries == []


async def test_a_client_that_leaves_amid_its_body_leaves_no_trace(rig: RelayRig) -> None:
    """When a client leaves during its body, the memory is freed and nothing is forwarded."""
    client = await rig.send(chat()[:-5])
    await come_true(lambda: rig.relay.context.bodies.in_memory > 0)
    client.hang_up()
    await come_true(lambda: len(rig.relay.connections.open) == 0)

    assert rig.relay.context.bodies.in_memory == 0
    assert rig.alpha.requests == 0


async def test_a_host_that_was_stopped_reads_before_it_closes(open_rig: OpenRig) -> None:
    """A request that arrived in time is served even if idleTimeout has passed before it is read."""
    rig = await open_rig(limits=Limits(idle_timeout_s=5.0))
    client = await rig.client()
    await client.send(UNKNOWN)
    await client.message()
    await rig.later(6.0)  # and a look at the deadlines
    await client.send(UNKNOWN)

    assert (await client.message()).status == 404
