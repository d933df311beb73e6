"""Upstreams with invalid or incomplete responses: a 502 or a visible cut, never an end that looks complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.relay_rig import HELLO, chat, chunked, get, turns
from tests.support.transport import End
from tests.support.waiting import come_true

from hotseat.relay.upstream.response_reader import LARGEST_HEAD, MOST_INTERIM_HEADS

if TYPE_CHECKING:
    from tests.support.relay_rig import RelayRig
    from tests.support.scripted_upstream import Call
    from tests.support.transport import Wire

pytestmark = pytest.mark.uncounted

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
CODED = CHUNKED + b"\r\n"
INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
CRASHED = b"HTTP/1.1 500 Crashed\r\nContent-Length: 3\r\n\r\nbad"


def with_length(*lines: bytes, body: bytes = b"hello") -> bytes:
    return OK + b"".join(b"Content-Length" + line + b"\r\n" for line in lines) + b"\r\n" + body


BAD_HEADS = {
    "length and chunks": CHUNKED + b"Content-Length: 5\r\n\r\n" + chunked(b"hello"),
    "chunks and length": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"hello"),
    "two lengths": with_length(b": 5", b": 6"),
    "the same length twice": with_length(b": 5", b": 5"),
    "lengths in two spellings": OK + b"content-length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "negative length": with_length(b": -5"),
    "signed length": with_length(b": +5"),
    "list of lengths": with_length(b": 5, 5"),
    "length in letters": with_length(b": five"),
    "empty length": with_length(b": "),
    "length beyond 64 bits": with_length(b": " + b"9" * 30),
    "blank before the colon": with_length(b" : 5"),
    "unknown coding": OK + b"Transfer-Encoding: xchunked\r\n\r\nhello",
    "gzip below chunked": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(b"hello"),
    "chunked below gzip": OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + chunked(b"hello"),
    "chunked on two lines": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"hello"),
    "identity": OK + b"Transfer-Encoding: identity\r\n\r\nhello",
    "empty coding": OK + b"Transfer-Encoding: \r\n\r\nhello",
    "folded field": OK + b"X-A: 1\r\n foo\r\nContent-Length: 5\r\n\r\nhello",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 9\n\nab\r\n\r\ncde",
    "bare line feed after a field": OK + b"X-A: 1\nContent-Length: 5\r\n\r\nhello",
    "carriage return in a value": OK + b"X-A: a\rb\r\nContent-Length: 5\r\n\r\nhello",
    "NUL in a value": OK + b"X-A: a\0b\r\nContent-Length: 5\r\n\r\nhello",
    "no colon": OK + b"nonsense\r\n\r\n",
    "no HTTP": b"* OK IMAP4 ready\r\n\r\n",
    "another protocol's name": b"RTSP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "blank line first": b"\r\n" + HELLO,
    "blank lines first": b"\r\n\r\n" + HELLO,
    "length before the first line": b"\r\nContent-Length: 5\r\nHTTP/1.1 200 OK\r\n\r\nhello",
    "interim answer after a blank line": b"\r\n" + INTERIM + HELLO,
    "interim answer of HTTP/2": INTERIM.replace(b"1.1", b"2.0") + HELLO,
    "status below all": HELLO.replace(b"200", b"099"),
    "short status": HELLO.replace(b"200", b"20"),
    "long status": HELLO.replace(b"200", b"2000"),
    "no status": HELLO.replace(b"200 OK", b"OK"),
    "switched unasked": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nxx",
    "switched without an Upgrade field": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + HELLO,
    "flood of interim responses": INTERIM * (MOST_INTERIM_HEADS + 1) + HELLO,
    "huge interim answer": b"HTTP/1.1 103 Early\r\nLink: " + b"a" * (LARGEST_HEAD + 1),
    "endless head": OK + b"X-A: " + b"a" * (LARGEST_HEAD + 1),
    "huge head": OK + b"X-A: " + b"a" * LARGEST_HEAD + b"\r\nContent-Length: 5\r\n\r\nhello",
    "many fields": OK + b"X-A: 1\r\n" * (LARGEST_HEAD // 8) + b"Content-Length: 5\r\n\r\nhello",
    "more than its length": HELLO + b"!",
    "another answer behind": HELLO + HELLO,
    "a line behind": HELLO + b"\r\n",
    "a body without one": b"HTTP/1.1 204 No Content\r\n\r\nhello",
    "a body that is not modified": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello",
    "more than nothing": OK + b"Content-Length: 0\r\n\r\n!",
    "bad size": CODED + b"ZZ\r\nhello\r\n",
    "bad line": CODED + b"5\nhello\r\n0\r\n\r\n",
    "answer behind its chunks": CODED + chunked(b"hello") + HELLO,
    "line behind its chunks": CODED + chunked(b"hello") + b"\r\n",
}

BAD_CHUNKS = {
    "bad size": b"ZZ\r\nhello\r\n",
    "size with a prefix": b"0x5\r\nhello\r\n",
    "size with a sign": b"+5\r\nhello\r\n",
    "blank after a size": b"5 \r\nhello\r\n",
    "no size": b"\r\nhello\r\n",
    "size beyond 64 bits": b"fffffffffffffffff\r\n",
    "line feed after a size": b"5\nhello\r\n",
    "line feed in an extension": b"5;a\nb\r\nhello\r\n",
    "chunk longer than its size": b"5\r\nhello!!",
    "chunk with a bare line feed behind": b"5\r\nhello\n0\r\n\r\n",
    "another answer behind": b"0\r\n\r\n" + HELLO,
    "line behind": b"0\r\n\r\n\r\n",
    "half a line behind": b"0\r\n\r\n\r",
    "line feed behind": b"0\r\n\r\n\n",
    "bad trailer": b"0\r\nX-A 1\r\n\r\n",
    "folded trailer": b"0\r\nX-A: 1\r\n b\r\n\r\n",
}


async def is_well_afterwards(rig: RelayRig, bad: Call) -> None:
    """The connection that misbehaved is gone, and nobody else notices."""
    assert await bad.ended() in End
    assert rig.relay.context.pool.idle == 0
    _, answered = await rig.exchange(chat())
    assert (answered.status, answered.body) == (200, b"hello")


@pytest.mark.parametrize("said", BAD_HEADS.values(), ids=BAD_HEADS.keys())
async def test_an_answer_that_cannot_be_trusted_is_an_error(rig: RelayRig, said: bytes) -> None:
    """An invalid response head is a 502 each time, and the client's connection stays usable."""
    client = await rig.client()
    for _ in range(2):
        await client.send(chat())
        call = await rig.alpha.call()
        await call.say(said)
        answered = await client.message()
        assert answered.status == 502
        assert b"alpha failed: " in answered.body

        await is_well_afterwards(rig, call)


@pytest.mark.parametrize("said", BAD_HEADS.values(), ids=BAD_HEADS.keys())
async def test_an_answer_that_cannot_be_trusted_is_none_on_a_used_connection(rig: RelayRig, said: bytes) -> None:
    """An invalid response head is also a 502 on a reused connection with cached heads."""
    client = await rig.client()
    for _ in range(2):
        await client.send(chat())
        await (await rig.alpha.call()).say(HELLO)
        await client.message()
    await client.send(chat())
    call = await rig.alpha.call()
    await call.say(said)
    answered = await client.message()

    assert answered.status == 502
    assert len(rig.alpha.lines) == 1
    await is_well_afterwards(rig, call)


async def streaming(rig: RelayRig) -> tuple[Wire, Call]:
    client, call = await rig.reached(chat())
    await call.say(CODED + b"5\r\nfirst\r\n")
    await client.read_until(b"5\r\nfirst\r\n")
    return client, call


@pytest.mark.parametrize("said", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
async def test_chunks_that_cannot_be_trusted_are_a_visible_cut(rig: RelayRig, said: bytes) -> None:
    """Invalid chunks end the response without its last chunk."""
    client, call = await streaming(rig)
    await call.say(said)

    assert await client.end() is End.CLOSED
    assert client.unread == b""
    await is_well_afterwards(rig, call)


@pytest.mark.parametrize("said", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
@pytest.mark.parametrize("size", [1, 2, 3, 4])
async def test_bad_chunks_are_bad_in_any_pieces(rig: RelayRig, said: bytes, size: int) -> None:
    """In any pieces, the client is cut off, or its response had ended and the extra bytes were not relayed."""
    client, call = await streaming(rig)
    for begin in range(0, len(said), size):
        if not rig.in_flight():
            break
        await call.say(said[begin : begin + size])
        await turns()
    await come_true(lambda: not rig.in_flight())
    if said.startswith(b"0\r\n\r\n") and rig.activity.entries[0].status == 200:
        assert await client.read_exactly(5) == b"0\r\n\r\n"
        await client.send(chat())
        await (await rig.alpha.call()).say(HELLO)
        assert (await client.read_exactly(8)) == b"HTTP/1.1"
        return

    assert await client.end() is End.CLOSED
    assert b"\r\n0\r\n\r\n" not in b"\r\n" + client.unread
    await is_well_afterwards(rig, call)


@pytest.mark.parametrize("at_once", [1, 5, MOST_INTERIM_HEADS])
async def test_interim_answers_are_counted_however_they_come(rig: RelayRig, at_once: int) -> None:
    """A limited number of interim responses is accepted; one more is a 502."""
    _, forgiven = await rig.exchange(chat(), INTERIM * MOST_INTERIM_HEADS + HELLO)
    client, call = await rig.reached(chat())
    for _ in range(0, MOST_INTERIM_HEADS + 1, at_once):
        await call.say(INTERIM * at_once)
        await turns()
    answered = await client.message()

    assert forgiven.status == 200
    assert answered.status == 502
    assert await call.ended() in End


@pytest.mark.parametrize(
    ("begun", "more"), [(b"5;", b"a" * 65_536), (b"0\r\n", b"X-A: 1\r\n" * 8192)], ids=["chunk extension", "trailers"]
)
async def test_what_has_no_end_is_cut_off(rig: RelayRig, begun: bytes, more: bytes) -> None:
    """An endless chunk extension and endless trailers are cut, and recorded as 502."""
    client, call = await streaming(rig)
    await call.say(begun)
    for _ in range(64):
        if not rig.in_flight():
            break
        await call.say(more)
        await turns()

    assert await client.end() is End.CLOSED
    assert rig.activity.entries[0].status == 502


@pytest.mark.parametrize("cut", range(len(HELLO)))
async def test_an_upstream_that_leaves_early_is_an_error_or_a_short_answer(rig: RelayRig, cut: int) -> None:
    """If the upstream closes early, the client gets 502 or fewer bytes than Content-Length."""
    await rig.exchange(chat())
    client = await rig.client()
    await client.send(chat())
    call = await rig.alpha.call()
    if cut:
        await call.say(HELLO[:cut])
        await turns()
    call.hang_up()
    head_end = HELLO.index(b"hello")
    if cut < head_end:
        assert (await client.message()).status == 502
    else:
        assert await client.end() is End.CLOSED
        assert client.unread.endswith(b"\r\n\r\n" + HELLO[head_end:cut])
        assert b"Content-Length: 5\r\n" in client.unread


@pytest.mark.parametrize("cut", range(1, len(CODED + chunked(b"hello"))))
async def test_chunks_that_stop_early_are_an_error_or_an_answer_without_end(rig: RelayRig, cut: int) -> None:
    """If a chunked response stops early, the client gets 502 or no last chunk."""
    client, call = await rig.reached(chat())
    await call.say((CODED + chunked(b"hello"))[:cut])
    await turns()
    call.hang_up()
    if cut < len(CODED):
        assert (await client.message()).status == 502
    else:
        assert await client.end() is End.CLOSED
        assert not client.unread.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", HELLO, b"\r\n"])
async def test_what_a_resting_connection_says_is_never_an_answer(rig: RelayRig, said: bytes) -> None:
    """What a server sends on an idle connection is not the response to the next request."""
    client, call = await rig.reached(chat())
    await call.say(HELLO)
    await client.message()
    if said:
        await call.say(said)
    call.hang_up()
    await come_true(lambda: rig.relay.context.pool.idle == 0)
    await client.send(chat())
    second = await rig.alpha.call()
    await second.say(HELLO.replace(b"hello", b"world"))

    assert (await client.message()).body == b"world"
    assert second.line is not call.line


@pytest.mark.parametrize(
    ("promise", "uses"),
    [
        (b"timeout=5, max=100", 99),
        (b"timeout=5, max=3", 2),
        (b"timeout=5, max=1", 1),
        (b"timeout=5, max=0", 1),
        (b"timeout=1", 1),
        (b"timeout=0", 1),
    ],
)
async def test_a_connection_is_used_less_often_than_its_server_allows(rig: RelayRig, promise: bytes, uses: int) -> None:
    """A connection is used fewer times than the server's Keep-Alive allows."""
    answer = HELLO.replace(b"Content", b"Keep-Alive: " + promise + b"\r\nContent", 1)
    client = await rig.client()
    calls = []
    for _ in range(uses + 1):
        await client.send(chat())
        calls.append(await rig.alpha.call())
        await calls[-1].say(answer)
        assert (await client.message()).body == b"hello"

    assert [call.line is calls[0].line for call in calls] == [True] * uses + [False]


async def test_a_connection_rests_less_long_than_its_server_allows(rig: RelayRig) -> None:
    """A connection that was idle for more than four of five allowed seconds is not reused."""
    answer = HELLO.replace(b"Content", b"Keep-Alive: timeout=5, max=100\r\nContent", 1)
    for _ in range(2):
        await rig.exchange(get(), answer)
    await rig.later(4.1)
    await rig.exchange(get(), answer)

    assert len(rig.alpha.lines) == 2


async def test_an_error_that_says_it_is_the_last_word_is_believed(rig: RelayRig) -> None:
    """A response with `Connection: close` is relayed complete, and its connection is not reused."""
    last = CRASHED.replace(b"Content", b"Connection: close\r\nContent", 1)
    for _ in range(3):
        _, answered = await rig.exchange(chat(), last)
        assert (answered.status, answered.body, answered.all("Connection")) == (500, b"bad", [])

    assert len(rig.alpha.lines) == 3


@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\nA: b\r\n\r\n"])
async def test_a_head_with_bare_line_feeds_is_refused_at_once(rig: RelayRig, interim: bytes) -> None:
    """A head whose lines end with LF alone would never be complete, so the client gets 502 without waiting."""
    client, call = await rig.reached(get())
    await call.say(interim + b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
    answered = await client.message()

    assert answered.status == 502
    assert b"malformed" in answered.body
