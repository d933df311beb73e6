"""Our own HTTP client against servers that are slow, endless, or something else than they should be."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.loop_turns import LongestCallback

from hotseat.identifiers import Address
from hotseat.net import http_client
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_client import LONGEST_HEAD, MOST_CHUNKS, MOST_INTERIM, MOST_LINES, fetch, lines_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SOON_S = 60.0
"""On a busy machine."""


@asynccontextmanager
async def server(
    answer: bytes, host: str = "127.0.0.1", *, hangs: bool = False
) -> AsyncIterator[tuple[Address, list[bytes]]]:
    """Answers every question with the same, then closes or waits for the end: its address, and what it was asked."""
    asked: list[bytes] = []
    speaking: list[asyncio.Task[None] | None] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        speaking.append(asyncio.current_task())
        with suppress(OSError):  # who asked hung up first
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            if hangs:
                await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(speak, host, 0) as listening:
        yield Address(host, listening.sockets[0].getsockname()[1]), asked
        await asyncio.gather(*filter(None, speaking))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nobody_listens(host: str) -> None:
    """The reason is the system's, on plain asyncio too, which has words of its own."""
    async with server(OK) as (address, _):
        closed = address._replace(host=host)
    with pytest.raises(ConnectionRefusedError, match=r"Connection refused$"):
        await fetch(closed, "/", Connector(), within=SOON_S)


@pytest.mark.parametrize(
    ("host", "said"), [("127.0.0.1", "127.0.0.1:{}"), ("::1", "[::1]:{}"), ("localhost", "localhost:{}")]
)
async def test_the_host_is_named_as_it_must_be(host: str, said: str) -> None:
    """The Host field has IPv6 addresses in brackets, and names unchanged."""
    async with server(OK + b"Content-Length: 2\r\n\r\nhi", host) as (address, asked):
        answer = await fetch(address._replace(prefix="/in"), "/x?y=1", Connector(), within=SOON_S)
    request, *fields = asked[0].decode().split("\r\n")

    assert request == "GET /in/x?y=1 HTTP/1.1"
    assert f"Host: {said.format(address.port)}" in fields
    assert (answer.status, answer.body, answer.is_success) == (200, b"hi", True)


async def test_a_question_with_a_body_and_further_fields() -> None:
    """A request with a body has its length and the given fields, and no others."""
    async with server(b"HTTP/1.1 409 Conflict\r\nServer: llama.cpp\r\n\r\nno") as (address, asked):
        answer = await fetch(address, "/x", Connector(), method="POST", lines=b"X-A: 1\r\n", body=b"{}", within=SOON_S)

    assert asked[0].decode().split("\r\n")[1:] == [
        f"Host: 127.0.0.1:{address.port}", "Connection: close", "Content-Length: 2", "X-A: 1", "", "",
    ]  # fmt: skip
    assert (answer.status, answer.fields["server"], answer.body, answer.is_success) == (409, "llama.cpp", b"no", False)


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        (b"Content-Length: 5\r\n\r\nhello and more", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: Chunked\r\n\r\n14\r\nhello, hello, hello!\r\n0\r\n\r\n", b"hello, hel"),
        (b"\r\nhello", b"hello"),
        (b"\r\nhello, hello, hello", b"hello, hel"),
        (b"Content-Length: 99999999999999\r\n\r\nhello, hello, hello", b"hello, hel"),
    ],
)
async def test_a_body_is_read_to_its_end_or_to_the_limit(rest: bytes, body: bytes) -> None:
    """A body ends by its length, its last chunk or the connection, and is cut at the limit."""
    async with server(OK + rest) as (address, _):
        answer = await fetch(address, "/", Connector(), within=SOON_S, most=10)

    assert answer.body == body


async def test_who_wants_no_body_does_not_wait_for_one() -> None:
    """With a limit of 0 the response is complete after its head, even on an open connection."""
    async with server(OK + b"\r\n", hangs=True) as (address, _):
        answer = await fetch(address, "/health", Connector(), within=SOON_S, most=0)

    assert answer.status == 200


async def test_an_interim_answer_is_not_the_answer() -> None:
    """An interim response is skipped."""
    async with server(b"HTTP/1.1 102 Processing\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n") as (address, _):
        assert (await fetch(address, "/", Connector(), within=SOON_S)).status == 200


@pytest.mark.parametrize("status", [b"204", b"304"])
async def test_a_status_without_a_body(status: bytes) -> None:
    """Nothing is waited for after its head, whatever length that declares, and nothing is read."""
    async with server(b"HTTP/1.1 %b x\r\nContent-Length: 9\r\n\r\nhello" % status, hangs=True) as (address, _):
        assert (await fetch(address, "/", Connector(), within=SOON_S)).body == b""


@pytest.mark.parametrize("rest", [b"Content-Length: 9\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n9\r\nhello"])
async def test_a_server_dies_in_the_middle_of_its_response(rest: bytes) -> None:
    """A part of a response is none, whatever its status."""
    async with server(OK + rest) as (address, _):
        with pytest.raises(ConnectionAbortedError, match="in the middle of its response"):
            await fetch(address, "/", Connector(), within=SOON_S)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/1.1 many OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        *(b"HTTP/1.1 %b x\r\n\r\n" % status for status in (b"999", b"1000", b"20", b"0", b"-5")),
        OK + b"Content-Length: -4\r\n\r\nbody",
        OK + b"Content-Length: x\r\n\r\nbody",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        OK + b"x" * (LONGEST_HEAD + 1) + b"\r\n\r\n",
        OK + b"A: b\r\n" * LONGEST_HEAD,
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (MOST_CHUNKS + 1),
        b"HTTP/1.1 100 Continue\r\n\r\n" * (MOST_INTERIM + 1) + OK + b"\r\n",
        OK + b"A: b\r\n" * (MOST_LINES + 1) + b"\r\n",
        (b"HTTP/1.1 103 Early Hints\r\n" + b"A: b\r\n" * (MOST_LINES // 2) + b"\r\n") * 3 + OK + b"\r\n",
    ],
    ids=range(20),
)
async def test_what_is_no_answer_is_a_value_error(answer: bytes) -> None:
    """The caller gets a ValueError for any response that is not HTTP."""
    async with server(answer) as (address, _):
        with pytest.raises(ValueError, match=r"\w"):
            await fetch(address, "/", Connector(), within=SOON_S)


async def test_as_many_header_lines_as_may_be() -> None:
    """They are the fields of the response; those of interim responses count among them."""
    early = b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"
    lines = b"".join(b"A%d: b\r\n" % number for number in range(MOST_LINES - 1))
    async with server(early + OK + lines + b"\r\n") as (address, _):
        assert len((await fetch(address, "/", Connector(), within=SOON_S)).fields) == MOST_LINES - 1


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 103 Early Hints\r\n"])
async def test_a_flood_of_short_header_lines(begin: bytes) -> None:
    """It blocks nobody: no callback takes 100 ms of a processor."""
    head = b":\n" * (LONGEST_HEAD // 2) + b"\n"
    async with server((begin + head) * MOST_INTERIM if begin else OK + head) as (address, _):
        with LongestCallback() as longest, pytest.raises(ValueError, match="head is too large"):
            await fetch(address, "/", Connector(), within=SOON_S)

    assert longest.seconds < 0.1, longest.what


async def test_nobody_is_waited_for_longer_than_said() -> None:
    """A response that does not end in time is a TimeoutError."""
    async with server(OK + b"Content-Length: 5\r\n\r\nhel", hangs=True) as (address, _):
        with pytest.raises(TimeoutError):
            await fetch(address, "/", Connector(), within=0.05)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a\0"])
async def test_a_path_that_would_break_the_head_is_not_asked_for(path: str) -> None:
    """A path with a space or a control character is refused, and nothing is sent."""
    async with server(OK + b"\r\n") as (address, asked):
        with pytest.raises(ValueError, match="cannot be requested"):
            await fetch(address, path, Connector(), within=SOON_S)

    assert asked == []


async def read(address: Address, within: float = SOON_S, quiet_s: float = SOON_S) -> list[bytes]:
    found = lines_of(address, "/feed", Connector(), lines=b"X-Y: z\r\n", within=within, quiet_s=quiet_s)
    async with aclosing(found):
        return [line async for line in found]


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED + b"4\r\none\n\r\n6;x=y\r\ntwo\nth\r\n4\r\nree\n\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK + b"\r\none\ntwo\nthree\n",
    ],
)
async def test_lines_are_whole_however_they_are_cut(answer: bytes) -> None:
    """The request has the fields that were given; chunks and pieces end anywhere."""
    async with server(answer) as (address, asked):
        found = await read(address)

    assert found == [b"one", b"two", b"three"]
    assert b"X-Y: z\r\n" in asked[0]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "it responded 404"),
        (CHUNKED, "in the middle of its response"),
        (CHUNKED + b"5\r\none", "in the middle of its response"),
        (CHUNKED + b"fffffffff\r\n", "a chunk of the response is too large"),
        (CHUNKED + b"-5\r\n", "a chunk of the response is too large"),
        (CHUNKED + b"what\r\n", "invalid literal"),
    ],
)
async def test_a_response_that_is_no_feed(answer: bytes, problem: str) -> None:
    """It is an error, and so is a feed that breaks off."""
    async with server(answer) as (address, _):
        with pytest.raises((OSError, ValueError), match=problem):
            await read(address)


async def test_a_chunk_of_a_million_lines() -> None:
    """It blocks nobody: no callback takes 100 ms of a processor."""
    lines = b":\n" * (1 << 20)
    async with server(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(lines), lines)) as (address, _):
        with LongestCallback() as longest:
            found = await read(address)

    assert len(found) == 1 << 20
    assert longest.seconds < 0.1, longest.what


async def test_a_line_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of it is bounded."""
    monkeypatch.setattr(http_client, "LONGEST_LINE", 4)
    async with server(OK + b"\r\n12345") as (address, _):
        with pytest.raises(ValueError, match="a line of the response is too long"):
            await read(address)


@pytest.mark.parametrize(("answer", "limits"), [(b"", (0.1, SOON_S)), (CHUNKED, (SOON_S, 0.1))])
async def test_a_server_that_says_nothing(answer: bytes, limits: tuple[float, float]) -> None:
    """Neither the wait for the head nor that for the next line is endless."""
    async with server(answer, hangs=True) as (address, _):
        with pytest.raises(TimeoutError):
            await read(address, *limits)
