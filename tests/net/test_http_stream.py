"""Endless responses over real sockets, line by line."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from tests.net.test_http_client import OK, SOON_S, server
from tests.support.loop_turns import LongestCallback

from hotseat.net import http_stream
from hotseat.net.happy_eyeballs import Connector
from hotseat.net.http_stream import lines_of

if TYPE_CHECKING:
    from hotseat.identifiers import Address

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


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
    monkeypatch.setattr(http_stream, "LONGEST_LINE", 4)
    async with server(OK + b"\r\n12345") as (address, _):
        with pytest.raises(ValueError, match="a line of the response is too long"):
            await read(address)


@pytest.mark.parametrize(("answer", "limits"), [(b"", (0.1, SOON_S)), (CHUNKED, (SOON_S, 0.1))])
async def test_a_server_that_says_nothing(answer: bytes, limits: tuple[float, float]) -> None:
    """Neither the wait for the head nor that for the next line is endless."""
    async with server(answer, hangs=True) as (address, _):
        with pytest.raises(TimeoutError):
            await read(address, *limits)
