"""The same bytes read by nginx and HAProxy: the relay may be stricter than both, never more lenient."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.corpus import CHUNKED, CHUNKS, FIRST_LINES, FRAMING, HOSTS, LINES, POST
from tests.support.second_parsers import three_parsers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.second_parsers import Reading

    Readings = dict[str, dict[str, Reading]]

pytestmark = pytest.mark.uncounted

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
HARMLESS = {
    "plain": GET + b"\r\n",
    "length": POST + b"Content-Length: 5\r\n\r\nhello",
    "length in small letters": POST + b"content-length: 5\r\n\r\nhello",
    "length with zeros": POST + b"Content-Length: 0005\r\n\r\nhello",
    "length with blanks around": POST + b"Content-Length:   5 \r\n\r\nhello",
    "length without a blank": POST + b"Content-Length:5\r\n\r\nhello",
    "no length": POST + b"\r\n",
    "length of nothing": POST + b"Content-Length: 0\r\n\r\n",
    "body of a GET": GET + b"Content-Length: 5\r\n\r\nhello",
    "chunks": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    "chunks in big letters": POST + b"TRANSFER-ENCODING: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "coding with blanks around": POST + b"Transfer-Encoding:  chunked \r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "size with zeros": CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n",
    "sizes in both cases": CHUNKED + b"a\r\nhellohello\r\nA\r\nhellohello\r\n0\r\n\r\n",
    "extension": CHUNKED + b"5;a=b\r\nhello\r\n0;c\r\n\r\n",
    "quoted extension": CHUNKED + b'5;a="b;c"\r\nhello\r\n0\r\n\r\n',
    "trailer": CHUNKED + b"5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n",
    "blank line first": b"\r\n" + GET + b"\r\n",
    "two": POST + b"Content-Length: 5\r\n\r\nhello" + GET + b"\r\n",
    "a request inside a body": POST + b"Content-Length: 34\r\n\r\nGET /inside HTTP/1.1\r\nHost: box\r\n\r\n",
    "empty field": GET + b"X-A:\r\n\r\n",
    "field beyond ASCII": GET + b"X-A: \xe4\r\n\r\n",
    "length in another field": GET + b"X-A: Content-Length: 5\r\n\r\n",
    "host with a port": b"GET / HTTP/1.1\r\nHost: x:80\r\n\r\n",
    "host in the target": b"GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "old, with a length": POST.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
}
ODD = {
    "trailer with a length": CHUNKED + b"5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n",
    "trailer with a coding": CHUNKED + b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two blanks": b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
    "old without a host": b"GET / HTTP/1.0\r\n\r\n",
    "old with a body": POST.replace(b"1.1", b"1.0") + b"Content-Length: 5\r\n\r\nhello",
    "semicolon alone": CHUNKED + b"5;\r\nhello\r\n0\r\n\r\n",
    "blank in an extension": CHUNKED + b"5 ;a\r\nhello\r\n0\r\n\r\n",
    "unended": POST + b"Content-Length: 500\r\n\r\nhello",
    "offer of HTTP/2": POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
    "field named in Connection": POST + b"Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
    "coding named in Connection": CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: transfer-encoding\r\n\r\n")
    + b"5\r\nhello\r\n0\r\n\r\n",
    "underscored length": POST + b"Content_Length: 5\r\n\r\n",
    "tab before a length": POST + b"Content-Length:\t5\r\n\r\nhello",
    "tab after a length": POST + b"Content-Length: 5\t\r\n\r\nhello",
    "tab before a coding": POST + b"Transfer-Encoding:\tchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "RTSP": b"GET / RTSP/1.0\r\nHost: x\r\n\r\n",
    "ICE": b"SOURCE / ICE/1.0\r\nHost: x\r\n\r\n",
}
SAID = (
    HARMLESS
    | ODD
    | {
        case.name: case.said
        for case in (*FRAMING, *CHUNKS, *LINES, *FIRST_LINES, *HOSTS)
        if len(case.said) < 1000 and "segments" not in case.name
    }
)


def aimed(said: bytes) -> bytes:
    """All of it is for a model, so that it is seen where it arrives."""
    for target in (b" / ", b" /v1/x "):
        said = said.replace(target, b" /x?model=alpha ")
    return said.replace(b" http://x/ ", b" http://x/x?model=alpha ")


async def _read_all(folder: Path) -> Readings:
    async with three_parsers(folder) as parsers:
        return {
            name: dict(
                zip(parsers, await asyncio.gather(*(p.read(aimed(said)) for p in parsers.values())), strict=True)
            )
            for name, said in SAID.items()
        }


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Readings:
    return asyncio.run(_read_all(tmp_path_factory.mktemp("parsers")))


@pytest.mark.parametrize("name", SAID)
def test_what_we_forward_the_others_read_alike(readings: Readings, name: str) -> None:
    """If hotseat accepts the bytes, nginx and HAProxy forward the same requests."""
    ours, nginx, haproxy = (readings[name][parser] for parser in ("hotseat", "nginx", "haproxy"))
    if ours.accepted:
        assert ours.forwarded == nginx.forwarded == haproxy.forwarded
        assert ours.reached_last == nginx.reached_last == haproxy.reached_last


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_forwarded(readings: Readings, name: str) -> None:
    """hotseat accepts the harmless inputs."""
    assert readings[name]["hotseat"].accepted
