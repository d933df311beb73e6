"""Valid requests on the wire, and those that are refused before they have an effect."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, chunked, get, post, turns
from tests.support.transport import End

from hotseat.relay.downstream.admission import HeadCache
from hotseat.relay.http.body import Body
from hotseat.relay.http.request_head import MOST_FIELDS
from hotseat.settings import Access, KiB, Limits
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

NAMED = b'{"model":"alpha"}'


async def test_a_body_of_stated_length_arrives_whole(rig: RelayRig) -> None:
    """A body with Content-Length arrives complete."""
    asked, answered = await rig.exchange(chat())

    assert asked.first_line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.body == NAMED
    assert answered.body == b"hello"


async def test_a_body_in_chunks_goes_on_with_its_length(rig: RelayRig) -> None:
    """A chunked body is forwarded with Content-Length."""
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    asked, _ = await rig.exchange(head + chunked(NAMED[:5], NAMED[5:]))

    assert asked["Content-Length"] == str(len(NAMED))
    assert asked.all("Transfer-Encoding") == []
    assert asked.body == NAMED


async def test_whitespace_around_a_value_does_not_belong_to_it(rig: RelayRig) -> None:
    """Spaces around field values are ignored."""
    asked, _ = await rig.exchange(
        b"POST /v1/x HTTP/1.1\r\nHost:  box \r\nTransfer-Encoding: chunked \r\n\r\n" + chunked(NAMED)
    )

    assert asked.body == NAMED


async def test_trailers_never_become_fields(rig: RelayRig) -> None:
    """Trailers are not forwarded as header fields."""
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    asked, _ = await rig.exchange(head + chunked(NAMED).removesuffix(b"\r\n") + b"X-Evil: 1\r\nHost: evil\r\n\r\n")

    assert "x-evil" not in asked.names
    assert asked.all("Host") == [f"127.0.0.1:{rig.alpha.address.port}"]


# Sizes


async def test_a_head_that_never_ends_is_refused(open_rig: OpenRig) -> None:
    """An unfinished head beyond the limit gets 431."""
    rig = await open_rig(limits=Limits(header=2000))
    answered = await rig.refusal(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 2000)

    assert answered.status == 431


async def test_a_large_head_is_refused_though_it_came_in_one_piece(open_rig: OpenRig) -> None:
    """A complete head beyond the limit gets 431."""
    rig = await open_rig(limits=Limits(header=2000))
    answered = await rig.refusal(get("/slots?model=alpha", f"X-Long: {'a' * 2000}"))

    assert answered.status == 431
    assert rig.alpha.requests == 0


@pytest.mark.parametrize(("count", "status"), [(MOST_FIELDS, 404), (MOST_FIELDS + 1, 431)])
@pytest.mark.parametrize("cut", [None, 500], ids=["whole", "in pieces"])
async def test_a_head_with_many_fields(rig: RelayRig, count: int, status: int, cut: int | None) -> None:
    """It may have 128 of them, the Host included."""
    request = get("/x?model=nobody", *(f"X-{n}: 1" for n in range(count - 1)))
    client = await rig.client()
    for piece in (request[:cut], request[cut:] if cut else b""):
        await client.send(piece)
        await turns()

    assert (await client.message()).status == status


IDLE = 100
LARGE_HEADS = {
    "many fields": lambda n: [f"X-{k}: {n}" for k in range(MOST_FIELDS - 4)],
    "long fields": lambda n: [f"X-{k}: {n:04d}{'a' * 1000}" for k in range(30)],
    "as large as it is kept": lambda n: [f"X-{k}: {n:04d}{'a' * 50}" for k in range(28)],
}


@pytest.mark.parametrize("fields", LARGE_HEADS.values(), ids=LARGE_HEADS.keys())
async def test_idle_connections_take_little_memory_whatever_they_have_sent(
    rig: RelayRig, fields: Callable[[int], list[str]]
) -> None:
    """Each keeps its last head only if that is small, so it takes less than 16 KiB."""
    clients = [await rig.send(chat("nobody"))]
    await clients[0].message()
    tracemalloc.start()
    for n in range(IDLE):
        clients.append(await rig.send(chat("nobody", *fields(n))))
        assert (await clients[-1].message()).status == 404
    rig.relay.context.heads = HeadCache(rig.relay.context.policy, rig.dispatcher.catalog)  # that of all is bounded
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(rig.relay.connections.open) == IDLE + 1
    assert taken < IDLE * 16 * KiB


async def test_a_long_target_counts_as_head(open_rig: OpenRig) -> None:
    """The request target counts towards the size of the head."""
    rig = await open_rig(limits=Limits(header=2000))

    assert (await rig.refusal(get(f"/slots?model=alpha&x={'a' * 2000}"))).status == 431


async def test_a_body_beside_a_small_head_does_not_count_as_head(open_rig: OpenRig) -> None:
    """A large body and trailers in the same packet do not count towards the size of the head."""
    rig = await open_rig(limits=Limits(header=2000))
    body = b'{"model":"alpha","prompt":"%b"}' % (b"a" * 4000)
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    asked, _ = await rig.exchange(head + chunked(body).removesuffix(b"\r\n") + b"X-Sum: 1\r\n\r\n")

    assert asked.body == body


@pytest.mark.parametrize(
    "trailers", [b"X: y\r\n" * 170_000, b"X: " + b"y" * 1_000_000], ids=["many small ones", "an endless one"]
)
async def test_huge_trailers_are_refused(rig: RelayRig, trailers: bytes) -> None:
    """Trailers beyond the limit get 431, finished or not."""
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    answered = await rig.refusal(head + chunked(NAMED).removesuffix(b"\r\n") + trailers)

    assert answered.status == 431


async def test_an_endless_chunk_extension_is_refused(rig: RelayRig) -> None:
    """A chunk extension beyond the limit gets 431."""
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    answered = await rig.refusal(head + b"5;" + b"a" * 1_000_000)

    assert answered.status == 431


async def test_a_body_that_says_it_is_too_large_is_refused_unread(open_rig: OpenRig) -> None:
    """A Content-Length beyond limits.body gets 413 before the body is sent."""
    rig = await open_rig(limits=Limits(body=1000))
    answered = await rig.refusal(get("/upload?model=alpha", "Content-Length: 1001", method="POST"))

    assert answered.status == 413
    assert answered["Connection"] == "close"


async def test_a_body_that_turns_out_too_large_is_refused(open_rig: OpenRig) -> None:
    """A chunked body beyond limits.body gets 413, and nothing is forwarded."""
    rig = await open_rig(limits=Limits(body=1000))
    head = get("/upload?model=alpha", "Transfer-Encoding: chunked", method="POST")
    answered = await rig.refusal(head + chunked(b"a" * 600, b"a" * 600))

    assert answered.status == 413
    assert rig.alpha.requests == 0


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/hotseat/keys/x"), ("GET", "/hotseat/requests"), ("POST", "/api/show"), ("DELETE", "/upstream/alpha")],
)
@pytest.mark.parametrize("framing", ["Content-Length", "chunked", "Expect"])
async def test_a_management_body_larger_than_its_route_takes_is_refused(
    rig: RelayRig, method: str, target: str, framing: str
) -> None:
    """It gets 413 before the API sees anything of it: at its head if that says its length, else as soon as possible."""
    match framing:
        case "chunked":
            head = get(target, "Transfer-Encoding: chunked", method=method)
            answered = await rig.refusal(head + b"10001\r\n" + b"[" * 0x10001)
        case "Expect":
            answered = await rig.refusal(get(target, "Content-Length: 65537", "Expect: 100-continue", method=method))
        case _:
            answered = await rig.refusal(get(target, "Content-Length: 65537", method=method))

    assert answered.status == 413
    assert "65536 bytes" in answered.body.decode()
    assert "limits." not in answered.body.decode()
    assert rig.management.lines == []


async def test_json_has_a_limit_of_its_own(open_rig: OpenRig) -> None:
    """JSON beyond limits.jsonBody gets 413; other bodies may be larger."""
    rig = await open_rig(limits=Limits(json_body=100, body=10_000))
    refused = await rig.refusal(post(b'{"model":"alpha","x":"%b"}' % (b"a" * 100)))
    _, answered = await rig.exchange(post(b"a" * 5000, target="/upload?model=alpha"))

    assert refused.status == 413
    assert "limits.jsonBody" in refused.body.decode()
    assert answered.status == 200


async def test_a_compressed_body_is_refused_unless_the_url_names_the_model(rig: RelayRig) -> None:
    """A compressed body gets 415, or is forwarded as it is if the URL names the model."""
    bomb = gzip.compress(b"a" * 10_000_000)
    refused = await rig.refusal(post(bomb, "Content-Encoding: gzip"))
    asked, _ = await rig.exchange(post(bomb, "Content-Encoding: gzip", target="/v1/chat/completions?model=alpha"))

    assert refused.status == 415
    assert asked.body == bomb


async def test_all_bodies_together_have_a_limit(rig: RelayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body beyond the total memory limit gets 429 with Retry-After."""
    monkeypatch.setattr("hotseat.relay.downstream.limits.MOST_IN_MEMORY", 1000)
    monkeypatch.setattr("hotseat.relay.downstream.limits.SMALL_BODY", 0)
    first = await rig.send(post(b"a" * 600)[:-1])
    second = await rig.send(post(b"a" * 600)[:-1])
    answered = await second.message()

    assert answered.status == 429
    assert answered["Retry-After"] == "1"
    first.hang_up()


async def test_a_body_in_millions_of_chunks_is_refused(rig: RelayRig) -> None:
    """A body in millions of tiny chunks gets 400, which says how large chunks must be."""
    head = get("/v1/chat/completions", "Transfer-Encoding: chunked", method="POST")
    client = await rig.send(head)
    sending = Tasks().start(client.send(b"2\r\naa\r\n" * 2_000_000), "send")
    answered = await client.message()
    sending.cancel()
    await asyncio.wait([sending])

    assert answered.status == 400
    assert b"chunks of 2 bytes on average. Send larger chunks, 64 bytes at least, or a length." in answered.body


async def test_a_body_may_come_word_by_word(rig: RelayRig) -> None:
    """A body in 20,000 chunks of five bytes is served."""
    body = b'{"model":"alpha","prompt":"%b"}' % (b"word " * 20_000)
    words = [body[start : start + 5] for start in range(0, len(body), 5)]
    head = get("/v1/chat/completions", "Transfer-Encoding: chunked", method="POST")
    asked, answered = await rig.exchange(head + chunked(*words))

    assert (answered.status, asked.body) == (200, body)


def test_a_body_in_small_pieces_takes_little_more_than_its_size() -> None:
    """A body added in pieces of two bytes takes less than twice its size in memory."""
    tracemalloc.start()
    body = Body()
    for _ in range(200_000):
        body.add(b"a" * 2)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert body.whole() == b"a" * 400_000
    assert taken < 2 * 400_000


# Expect


async def test_a_client_that_asks_first_gets_100_continue(rig: RelayRig) -> None:
    """The relay itself sends 100 Continue; the upstream never sees the Expect header."""
    client = await rig.client()
    request = chat("alpha", "Expect: 100-continue")
    await client.send(request.removesuffix(NAMED))
    interim = await client.message()
    await client.send(NAMED)
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert interim.first_line == "HTTP/1.1 100 Continue"
    assert "expect" not in call.request.names
    assert (await client.message()).body == b"hello"


async def test_a_refused_client_gets_no_100_continue(open_rig: OpenRig) -> None:
    """A request that is too large gets 413 instead of 100 Continue."""
    rig = await open_rig(limits=Limits(json_body=100))
    answered = await rig.refusal(get("/v1/x", "Expect: 100-continue", "Content-Length: 101", method="POST"))

    assert answered.status == 413


async def test_going_on_waits_for_its_turn(rig: RelayRig) -> None:
    """100 Continue is sent after the response to the request before."""
    client, call = await rig.reached(get() + chat("alpha", "Expect: 100-continue").removesuffix(NAMED))
    await call.say(HELLO)
    first, second = await client.message(), await client.message()
    await client.send(NAMED)
    call = await rig.alpha.call()
    await call.say(HELLO)

    assert (first.status, second.status) == (200, 100)
    assert (await client.message()).status == 200


async def test_a_body_that_does_not_wait_gets_no_100_continue(rig: RelayRig) -> None:
    """If the body has already arrived, 100 Continue is not sent."""
    client, call = await rig.reached(get() + chat("alpha", "Expect: 100-continue"))
    await call.say(HELLO)
    second = await rig.alpha.call()
    await second.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 200]


async def test_an_impatient_body_that_is_too_large_is_refused_once(open_rig: OpenRig) -> None:
    """A pipelined body that is too large gets 413, and nothing is sent after it."""
    rig = await open_rig(limits=Limits(json_body=100))
    head = get("/v1/x", "Expect: 100-continue", "Transfer-Encoding: chunked", method="POST")
    client, call = await rig.reached(get() + head)
    await client.send(chunked(b"a" * 200))
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 413]
    assert await client.end() is End.CLOSED
    assert client.unread == b""


# Forms of a request


async def test_an_absolute_target_is_reduced_to_its_path(rig: RelayRig) -> None:
    """An absolute target with hotseat's own host is forwarded as a path."""
    asked, _ = await rig.exchange(get("http://box/slots?model=alpha"))

    assert asked.first_line == "GET /slots?model=alpha HTTP/1.1"


async def test_an_offer_of_http_2_is_declined_and_the_request_served(rig: RelayRig) -> None:
    """A request that offers h2c is served as HTTP/1.1, without the offer."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    asked, answered = await rig.exchange(chat("alpha", *offer))

    assert asked.body == NAMED
    assert answered.status == 200
    assert {"upgrade", "http2-settings", "connection"}.isdisjoint(asked.names)


async def test_many_offers_of_http_2_in_one_piece_are_served_one_by_one(rig: RelayRig) -> None:
    """120 pipelined requests that offer h2c all get a response."""
    offer = get("/nowhere/x?model=nobody", "Connection: Upgrade", "Upgrade: h2c")
    client = await rig.send(offer * 120)

    for _ in range(120):
        assert (await client.message()).status == 404


@pytest.mark.parametrize("behind", [b"GET / RTSP/1.0\r\nHost: box\r\n\r\n", post(NAMED).replace(b"h: 17", b"h:\t17")])
async def test_a_request_behind_chunks_is_checked_like_any_other(rig: RelayRig, behind: bytes) -> None:
    """Also where it comes in the same piece as the last chunk before it."""
    head = get("/v1/x", "Transfer-Encoding: chunked", method="POST")
    client, call = await rig.reached(head + chunked(NAMED) + behind)
    await call.say(HELLO)

    assert [(await client.message()).status for _ in range(2)] == [200, 400]
    assert await client.end() is End.CLOSED
    assert rig.alpha.requests == 1


async def test_requests_in_chunks_may_follow_each_other_in_one_piece(rig: RelayRig) -> None:
    """Each ends with its last chunk or its trailers, whatever its content looks like."""
    head = get("/upload?model=alpha", "Transfer-Encoding: chunked", method="POST")
    bodies = [b"a\r\n0\r\n\r\n", b"0\r\n\r\n\r\n\r\n", NAMED]
    first, second, third = (head + chunked(body) for body in bodies)
    client = await rig.send(first + second.removesuffix(b"\r\n") + b"X-Sum: 1\r\n\r\n\r\n" + third + get())
    asked = []
    for _ in range(4):
        call = await rig.alpha.call()
        asked.append(call.request.body)
        await call.say(HELLO)

        assert (await client.message()).status == 200
    assert asked == [*bodies, b""]


async def test_blank_lines_before_a_request_are_forgiven(rig: RelayRig) -> None:
    """A blank line before a request is ignored."""
    assert (await rig.exchange(b"\r\n" + chat()))[1].status == 200


async def test_a_foreign_host_name_is_refused_before_the_body(open_rig: OpenRig) -> None:
    """A request with a foreign Host gets 403, which names allowedHosts."""
    rig = await open_rig(access=Access(allowed_hosts=("good.example",)))
    request = chat().replace(b"Host: box", b"Host: evil.example")
    answered = await rig.refusal(request)

    assert answered.status == 403
    assert "allowedHosts" in answered.body.decode()


async def test_a_preflight_with_a_body_is_answered_and_its_body_is_not_read(open_rig: OpenRig) -> None:
    """No browser sends one; like a refused request with a body, it is the last on its connection."""
    rig = await open_rig(access=Access(allowed_origins=("http://a.example",)))
    fields = ("Origin: http://a.example", "Access-Control-Request-Method: POST", "Content-Length: 5")
    client = await rig.send(get("/v1/chat/completions", *fields, method="OPTIONS") + b"hello" + get())

    assert (await client.message()).status == 204
    assert await client.end() is End.CLOSED
    assert client.unread == b""
