"""What reaches the client of an upstream's response, in every framing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, chunked, get, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.settings import Access, ApiKey, Role

if TYPE_CHECKING:
    from tests.relay.conftest import OpenRig
    from tests.support.relay_rig import RelayRig

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
SSE = CHUNKED + b"Content-Type: text/event-stream\r\n\r\n"
AFTER = get("/after?model=alpha")


async def test_an_answer_in_chunks_keeps_its_chunks(rig: RelayRig) -> None:
    """A chunked response is relayed byte by byte, with extensions and trailers."""
    body = b"5;note=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n"
    _, answered = await rig.exchange(chat(), CHUNKED + b"Trailer: X-Sum\r\n\r\n" + body)

    assert answered.raw.endswith(b"\r\n\r\n" + body)
    assert answered["Transfer-Encoding"] == "chunked"
    assert answered["Trailer"] == "X-Sum"


@pytest.mark.parametrize(
    "said",
    [HELLO, b"HTTP/1.1 103 Early\r\n\r\n" + CHUNKED + b"\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n"],
    ids=["length", "chunks"],
)
async def test_an_answer_may_be_cut_anywhere(rig: RelayRig, said: bytes) -> None:
    """However the network splits it, it is the same response, and its connection returns to the pool."""
    client = await rig.client()
    for cut in range(1, len(said)):
        await client.send(get())
        call = await rig.alpha.call()
        await call.say(said[:cut])
        await turns()
        await call.say(said[cut:])
        assert (await client.message()).body == b"hello"

    assert len(rig.alpha.lines) == 1 + len(said) // 100


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"])
async def test_an_answer_may_end_with_its_connection(rig: RelayRig, start: bytes) -> None:
    """A response that ends with its connection reaches the client in chunks, so that a kill looks different."""
    client, call = await rig.reached(chat())
    await call.say(start + b"hel")
    await call.say(b"lo")
    call.hang_up()
    answered = await client.message()

    assert answered.body == b"hello"
    assert answered["Transfer-Encoding"] == "chunked"
    await client.send(chat())
    await (await rig.alpha.call()).say(HELLO)
    assert (await client.message()).body == b"hello"


async def test_an_old_client_gets_the_end_by_a_closed_connection(rig: RelayRig) -> None:
    """An HTTP/1.0 client gets a response without a length as plain bytes and a close."""
    client, call = await rig.reached(get(version="1.0"))
    await call.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
    call.hang_up()
    answered = await client.message()

    assert answered.body == b"hello"
    assert answered["Connection"] == "close"
    assert await client.end() is End.CLOSED


@pytest.mark.parametrize(
    "head",
    [
        OK + b"Content-Length: 5\r\n\r\n",
        CHUNKED + b"\r\n",
        OK + b"X-Nothing: known\r\n\r\n",
        HELLO,
    ],
    ids=["length", "chunked", "neither", "a body though nobody wants it"],
)
async def test_an_answer_to_head_ends_at_its_head(rig: RelayRig, head: bytes) -> None:
    """A response to HEAD has no body, whatever it announces, and the connection stays usable."""
    client, call = await rig.reached(get(method="HEAD"))
    await call.say(head)
    answered = await client.message(to="HEAD")
    await client.send(AFTER)
    await (await rig.alpha.call()).say(HELLO)

    assert answered.status == 200
    assert (await client.message()).body == b"hello"


@pytest.mark.parametrize("fields", [b"", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_some_answers_have_no_body_whatever_they_say(rig: RelayRig, status: bytes, fields: bytes) -> None:
    """204 and 304 end at their heads, whatever they announce."""
    client, call = await rig.reached(get())
    await call.say(b"HTTP/1.1 %b\r\n%b\r\n" % (status, fields))
    answered = await client.message()
    await client.send(AFTER)
    await (await rig.alpha.call()).say(HELLO)

    assert answered.first_line == f"HTTP/1.1 {status.decode()}"
    assert (await client.read_exactly(15)) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 102 Processing\r\n\r\n" * 3,
    ],
)
async def test_interim_answers_end_here(rig: RelayRig, interim: bytes) -> None:
    """Interim responses are not relayed, however they are split."""
    _, together = await rig.exchange(get(), interim + HELLO)
    client, call = await rig.reached(get())
    await call.say(interim[:15])
    await call.say(interim[15:])
    await call.say(HELLO)

    assert together.raw == (await client.message()).raw
    assert together.status == 200


@pytest.mark.parametrize(
    ("reason", "status_line"),
    [
        (b"200 Very Well", "HTTP/1.1 200 Very Well"),
        (b"299 Odd", "HTTP/1.1 299 Odd"),
        (b"500 Out of memory (CUDA)", "HTTP/1.1 500 Out of memory (CUDA)"),
        (b"200", "HTTP/1.1 200 "),
    ],
)
async def test_the_status_line_is_kept(rig: RelayRig, reason: bytes, status_line: str) -> None:
    """The upstream's status and reason are relayed unchanged."""
    _, answered = await rig.exchange(get(), HELLO.replace(b"200 OK", reason))

    assert answered.first_line == status_line


async def test_hop_by_hop_fields_of_an_answer_end_here(rig: RelayRig) -> None:
    """Hop-by-hop fields and those named in Connection are removed; repeated fields stay."""
    own = b"Connection: keep-alive, X-Private\r\nKeep-Alive: timeout=5\r\nX-Private: 1\r\nUpgrade: h2c\r\n"
    cookies = b"Set-Cookie: a\r\nSet-Cookie: b\r\n"
    _, answered = await rig.exchange(get(), HELLO.replace(b"Content", own + cookies + b"Content", 1))

    assert {"connection", "keep-alive", "x-private", "upgrade"}.isdisjoint(answered.names)
    assert answered.all("Set-Cookie") == ["a", "b"]


@pytest.mark.parametrize("named", [b"Content-Length", b"close, content-length", b"Transfer-Encoding"])
async def test_framing_that_is_named_in_connection_stays(rig: RelayRig, named: bytes) -> None:
    """Content-Length is relayed even if the upstream names it in Connection."""
    connection = b"Connection: %b\r\nContent" % named
    answered = [(await rig.exchange(get(), HELLO.replace(b"Content", connection, 1)))[1] for _ in range(2)]

    assert [(each["Content-Length"], each.body) for each in answered] == [("5", b"hello")] * 2


async def test_an_upstream_that_closes_does_not_close_the_client(rig: RelayRig) -> None:
    """An upstream's `Connection: close` does not close the client's connection."""
    client, call = await rig.reached(get())
    await call.say(HELLO.replace(b"Content", b"Connection: close\r\nContent", 1))
    answered = await client.message()
    await client.send(AFTER)
    await (await rig.alpha.call()).say(HELLO)

    assert answered.all("Connection") == []
    assert (await client.message()).status == 200
    assert len(rig.alpha.lines) == 2


async def test_an_old_client_gets_no_chunks(rig: RelayRig) -> None:
    """An HTTP/1.0 client gets a chunked response as plain bytes and a close."""
    client, call = await rig.reached(get("/x?model=alpha", "Connection: keep-alive", version="1.0"))
    await call.say(CHUNKED + b"Trailer: X-Sum\r\n\r\n5\r\nhel")
    await call.say(b"lo\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n")
    answered = await client.message()

    assert answered.body == b"hello!"
    assert {"transfer-encoding", "trailer"}.isdisjoint(answered.names)
    assert answered["Connection"] == "close"


async def test_event_streams_are_not_to_be_buffered(rig: RelayRig) -> None:
    """Event streams get X-Accel-Buffering: no, unless the upstream sets it."""
    _, reply = await rig.exchange(chat(), SSE + chunked(b"data: x\n\n"))
    own = SSE.replace(b"\r\n\r\n", b"\r\nX-Accel-Buffering: yes\r\n\r\n")
    _, kept = await rig.exchange(chat(), own + chunked(b"data: x\n\n"))

    assert reply["X-Accel-Buffering"] == "no"
    assert kept["X-Accel-Buffering"] == "yes"


WRONG = {
    "both framings": CHUNKED + b"Content-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "another coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "no chunks in its coding": OK + b"Transfer-Encoding: identity\r\n\r\nhello",
    "no HTTP": b"* OK IMAP4 ready\r\n\r\n",
    "a field without a colon": OK + b"nonsense\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "an endless head": OK + b"X-Long: " + b"a" * 70_000,
    "a huge head": OK + b"X-Long: " + b"a" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "a flood of interim responses": b"HTTP/1.1 102 Processing\r\n\r\n" * 17 + HELLO,
    "more than its length": HELLO + b"HTTP/1.1 200 OK\r\n\r\n",
    "a line more than its length": HELLO + b"\r\n",
    "a body where there is none": b"HTTP/1.1 204 No Content\r\n\r\nhello",
    "a bad chunk": CHUNKED + b"\r\nZZ\r\nhello",
    "more than its chunks": CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "a line more than its chunks": CHUNKED + b"\r\n5\r\nhello\r\n0\r\n\r\n\r\n",
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG.keys())
async def test_an_upstream_that_breaks_the_rules_is_not_relayed(rig: RelayRig, said: bytes) -> None:
    """An invalid response is a 502 that names the model, and its connection is not reused."""
    client, call = await rig.reached(get())
    await call.say(said)
    answered = await client.message()
    ended = await call.ended()
    await client.send(AFTER)
    await (await rig.alpha.call()).say(HELLO)

    assert answered.status == 502
    assert "alpha" in answered.body.decode()
    assert ended in End
    assert (await client.message()).body == b"hello"
    assert len(rig.alpha.lines) == 2


@pytest.mark.parametrize(
    ("said", "relayed"),
    [
        (b"ZZ\r\nhello\r\n", b""),
        (b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b""),
        (b"0\r\n\r\n\r\n", b""),
        (b"5\r\nhelloXX", b""),
    ],
    ids=["bad size", "another answer", "another line", "bad end of a chunk"],
)
async def test_rules_broken_later_are_a_visible_cut(rig: RelayRig, said: bytes, relayed: bytes) -> None:
    """Invalid chunks after the head end the response without its last chunk."""
    client, call = await rig.reached(get())
    await call.say(CHUNKED + b"\r\n5\r\nfirst\r\n")
    await client.read_until(b"5\r\nfirst\r\n")
    await call.say(said)

    assert await client.end() is End.CLOSED
    assert client.unread == relayed


async def test_bytes_beyond_the_length_are_a_visible_cut(rig: RelayRig) -> None:
    """Bytes beyond Content-Length are not relayed, and the response is cut."""
    client, call = await rig.reached(get())
    await call.say(OK + b"Content-Length: 10\r\n\r\nhello")
    await client.read_until(b"hello")
    await call.say(b"hello" + HELLO)

    assert await client.end() is End.CLOSED
    assert client.unread == b""


async def test_bytes_that_nobody_asked_for_close_a_resting_connection(rig: RelayRig) -> None:
    """An idle upstream connection that sends bytes is closed and not reused."""
    client, call = await rig.reached(get())
    await call.say(HELLO)
    await client.message()
    await call.say(HELLO.replace(b"hello", b"wrong"))
    await call.ended()
    await client.send(AFTER)
    await (await rig.alpha.call()).say(HELLO)

    assert (await client.message()).body == b"hello"
    assert len(rig.alpha.lines) == 2


async def test_a_finished_request_is_written_down_once(rig: RelayRig) -> None:
    """A finished request is recorded once with model, status and times."""
    await rig.exchange(chat(), HELLO.replace(b"200", b"418"))
    await come_true(lambda: rig.activity.entries)
    (entry,) = rig.activity.entries

    assert (entry.model, entry.status) == ("alpha", 418)
    assert entry.first_byte_s is not None
    assert 0 <= entry.waited_s <= entry.first_byte_s <= entry.seconds


# Pages of other origins

CHAT_PAGE = Access(allowed_origins=("https://chat.example", "any-scheme.example"))
ORIGIN = "Origin: https://chat.example"


async def test_an_allowed_page_may_read_the_answer(open_rig: OpenRig) -> None:
    """For an allowed origin, the upstream's CORS header is replaced."""
    rig = await open_rig(access=CHAT_PAGE)
    own = HELLO.replace(b"Content", b"Access-Control-Allow-Origin: *\r\nContent", 1)
    _, answered = await rig.exchange(chat("alpha", ORIGIN), own)

    assert answered["Access-Control-Allow-Origin"] == "https://chat.example"
    assert answered["Vary"] == "Origin"


async def test_an_origin_may_be_allowed_whatever_its_scheme(open_rig: OpenRig) -> None:
    """An origin allowed without a scheme gets the CORS header for its own scheme."""
    rig = await open_rig(access=CHAT_PAGE)
    _, answered = await rig.exchange(chat("alpha", "Origin: app://any-scheme.example"))

    assert answered["Access-Control-Allow-Origin"] == "app://any-scheme.example"


async def test_an_allowed_page_may_read_a_refusal(open_rig: OpenRig) -> None:
    """Errors have the CORS header for an allowed origin."""
    rig = await open_rig(access=CHAT_PAGE)

    for request in (chat("nobody", ORIGIN), get("/x?model=nobody", ORIGIN)):
        answered = await rig.refusal(request)
        assert answered.status == 404
        assert answered["Access-Control-Allow-Origin"] == "https://chat.example"


async def test_an_allowed_page_may_ask_whether_it_may_ask(open_rig: OpenRig) -> None:
    """A preflight gets 204 from hotseat, starts no model and respects `Connection: close`."""
    rig = await open_rig(access=CHAT_PAGE)
    preflight = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
    client = await rig.send(get("/v1/chat/completions", ORIGIN, *preflight, method="OPTIONS"))
    answered = await client.message()
    await client.send(get("/v1/x", ORIGIN, preflight[0], "Connection: close", method="OPTIONS"))
    last = await client.message()

    assert answered.status == 204
    assert answered["Access-Control-Allow-Methods"] == "POST"
    assert answered["Access-Control-Allow-Headers"] == "authorization"
    assert "access-control-allow-headers" not in last.names
    assert await client.end() is End.CLOSED
    assert rig.phase("alpha") == "cold"


@pytest.mark.parametrize(
    "fields",
    [("Origin: https://evil.example",), ("Origin: https://evil.example", "Access-Control-Request-Method: POST")],
)
async def test_other_pages_are_refused(open_rig: OpenRig, fields: tuple[str, ...]) -> None:
    """A foreign origin's request and preflight get 403 without CORS headers."""
    rig = await open_rig(access=CHAT_PAGE)
    answered = await rig.refusal(get("/v1/chat/completions", *fields, method="OPTIONS"))

    assert answered.status == 403
    assert "access-control-allow-origin" not in answered.names


async def test_without_allowed_pages_nothing_is_said_about_them(rig: RelayRig) -> None:
    """A preflight from hotseat's own origin is forwarded, and no CORS header is added."""
    own = ("Origin: http://box", "Access-Control-Request-Method: POST")
    _, answered = await rig.exchange(get("/x?model=alpha", *own, method="OPTIONS"))

    assert answered.status == 200
    assert "access-control-allow-origin" not in answered.names


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://[::1]:8080", "tauri://localhost", "file://"])
async def test_a_page_of_this_machine_may_read_what_a_model_says(rig: RelayRig, origin: str) -> None:
    """A page of this machine gets its origin in the CORS header, also for errors and cached heads."""
    own = HELLO.replace(b"Content", b"Access-Control-Allow-Origin: *\r\nContent", 1)
    for _ in range(3):
        _, answered = await rig.exchange(chat("alpha", f"Origin: {origin}"), own)

        assert answered.all("Access-Control-Allow-Origin") == [origin]
        assert answered["Vary"] == "Origin"
    refused = await rig.refusal(chat("nobody", f"Origin: {origin}"))
    assert (refused.status, refused["Access-Control-Allow-Origin"]) == (404, origin)


async def test_a_page_of_this_machine_may_ask_whether_it_may_ask_a_model(rig: RelayRig) -> None:
    """A local page's preflight gets 204 for inference, and 403 without CORS headers for management."""
    fields = ("Origin: http://localhost:3000", "Access-Control-Request-Headers: authorization")
    client = await rig.send(
        get("/v1/chat/completions", *fields, "Access-Control-Request-Method: POST", method="OPTIONS")
    )
    allowed = await client.message()
    refused = await rig.refusal(
        get("/upstream/alpha", *fields, "Access-Control-Request-Method: DELETE", method="OPTIONS")
    )

    assert (allowed.status, allowed["Access-Control-Allow-Origin"]) == (204, "http://localhost:3000")
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.names


async def test_our_own_page_under_another_name_of_this_machine_may_read_everything(rig: RelayRig) -> None:
    """hotseat's page under another loopback name gets the CORS header for management too."""
    port = rig.port
    client = await rig.client()
    await client.send(
        f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://localhost:{port}\r\n\r\n".encode()
    )
    await (await rig.management.call()).say(HELLO)

    assert (await client.message())["Access-Control-Allow-Origin"] == f"http://localhost:{port}"


# A Host that nobody knows

KEYED = Access(api_keys=(ApiKey("ours"), ApiKey("lesser", Role.INFERENCE)))


def at_a_foreign_name(method: str, target: str, *fields: str) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: models.example.com", *fields, "", ""]).encode()


@pytest.mark.parametrize("key", ["Authorization: Bearer ours", "x-api-key: lesser", "Authorization: Basic Om91cnM="])
async def test_with_a_valid_key_any_host_is_served(open_rig: OpenRig, key: str) -> None:
    """A foreign Host is served with a valid key, and refused without one before and after."""
    rig = await open_rig(access=KEYED)
    for _ in range(2):
        for fields in ((), ("Authorization: Bearer wrong",), ("x-api-key: ",)):
            refused = await rig.refusal(at_a_foreign_name("GET", "/props?model=alpha", *fields))
            assert (refused.status, "allowedHosts" in refused.body.decode()) == (403, True)
        asked, answered = await rig.exchange(at_a_foreign_name("GET", "/props?model=alpha", key))
        assert (answered.status, asked["X-Forwarded-Host"]) == (200, "models.example.com")


async def test_a_valid_key_at_a_foreign_name_opens_what_its_role_opens(open_rig: OpenRig) -> None:
    """At a foreign Host, roles and origins are checked as usual."""
    rig = await open_rig(access=KEYED)
    too_low = await rig.refusal(at_a_foreign_name("DELETE", "/upstream/alpha", "x-api-key: lesser"))
    foreign = ("x-api-key: ours", "Origin: https://evil.example")
    page = await rig.refusal(at_a_foreign_name("GET", "/props?model=alpha", *foreign))

    assert (too_low.status, "role operate" in too_low.body.decode()) == (403, True)
    assert (page.status, "allowedOrigins" in page.body.decode()) == (403, True)
    assert rig.management.lines == []
