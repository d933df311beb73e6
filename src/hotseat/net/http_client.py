"""A small HTTP client for our own requests: readiness checks, model server properties, other hosts and their feeds.

Client requests go through the relay. Each fetch uses its own connection, and the caller limits the response size; an
endless response, such as a feed of events, is read line by line.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.net.happy_eyeballs import in_plain_words

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping

    from hotseat.identifiers import Address, Bytes, Seconds
    from hotseat.net.happy_eyeballs import Connector

MOST_BYTES: Bytes = 256 << 10
"""Of a body that is parsed: a MiB of JSON may take 150 ms of the event loop."""
LONGEST_HEAD: Bytes = 64 << 10
MOST_LINES, MOST_CHUNKS = 128, 4096
"""Of a response, lines of interim heads included; each costs a call, and more would block the event loop."""
LARGEST_CHUNK: Bytes = 4 << 20
LONGEST_LINE: Bytes = 4 << 20
PIECE: Bytes = 64 << 10
INTERIM, MOST_INTERIM = range(100, 200), 16
STATUSES, LONGEST_STATUS = range(100, 600), 10
WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
"""Whatever their head says about one."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    fields: Mapping[str, str]
    """Names are lower case."""
    body: bytes = b""
    certificate_ends: float | None = None
    """POSIX time; None: no TLS."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def fetch(
    address: Address,
    path: str,
    connector: Connector,
    *,
    method: str = "GET",
    lines: bytes = b"",
    body: bytes = b"",
    within: Seconds | None = None,
    most: Bytes = MOST_BYTES,
    when_connected: Callable[[], None] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """The response with at most `most` bytes of its body. `lines` are extra header lines, each with its CRLF.

    Raises OSError (which includes TimeoutError) without a whole response, ValueError if it is not HTTP.
    """
    request = question(address, path, method, lines, body)
    async with asyncio.timeout(within), connected(address, connector, tls) as (reader, writer):
        if when_connected is not None:
            when_connected()
        writer.write(request)
        status, fields = await response_head(reader)
        read = await _body(reader, fields, most) if most and status not in WITHOUT_BODY else b""
        certificate = writer.get_extra_info("peercert")
        ends = ssl.cert_time_to_seconds(certificate["notAfter"]) if certificate else None
        return Answer(status, fields, read, ends)


async def lines_of(
    address: Address, path: str, connector: Connector, *, lines: bytes, within: Seconds, quiet_s: Seconds
) -> AsyncGenerator[bytes, None]:
    """The lines of the body as they arrive; leaving the loop closes the connection.

    Raises OSError (which includes TimeoutError) if the response does not begin `within` this time or nothing arrives
    for `quiet_s`, ValueError if it is not such a response.
    """
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(within):
            reader, writer = await stack.enter_async_context(connected(address, connector))
            writer.write(question(address, path, "GET", lines))
            status, fields = await response_head(reader)
        if status != HTTPStatus.OK:
            raise ValueError(f"it responded {status}")
        pieces = await stack.enter_async_context(aclosing(_pieces(reader, fields, quiet_s)))
        rest = b""
        async for piece in pieces:
            for begin in range(0, len(piece), PIECE):
                *whole, rest = (rest + piece[begin : begin + PIECE]).split(b"\n")
                for line in whole:
                    yield line
                if len(rest) > LONGEST_LINE:
                    raise ValueError("a line of the response is too long")
                await asyncio.sleep(0)  # a chunk may have two million lines


def question(address: Address, path: str, method: str, lines: bytes, body: bytes = b"") -> bytes:
    target = f"{address.prefix}{path}"
    if " " in target or not target.isprintable():
        raise ValueError(f"{target!r} cannot be requested: it contains a space or a control character")
    head = f"{method} {target} HTTP/1.1\r\nHost: {address.authority}\r\nConnection: close\r\n"
    length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
    return f"{head}{length}".encode() + lines + b"\r\n" + body


@asynccontextmanager
async def connected(
    address: Address, connector: Connector, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    try:
        reader, writer = await _opened(address, connector, tls)
    except OSError as problem:
        raise in_plain_words(problem) from None
    try:
        if is_connected_to_itself(writer.transport):
            raise ConnectionRefusedError(f"nothing is listening on {address.authority}")
        yield reader, writer
    finally:
        writer.transport.abort()


async def _opened(
    address: Address, connector: Connector, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.unix_path:
        return await asyncio.open_unix_connection(address.unix_path)
    context = (tls or tls_context()) if address.tls else None
    return await asyncio.open_connection(ssl=context, **await connector.way_to(address))


def is_connected_to_itself(transport: asyncio.WriteTransport) -> bool:
    """The kernel may choose the very port that we connect to for our own end, if nothing listens there."""
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return bool(here) and here == there


@cache
def tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


# Reading


async def response_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and fields, whose names are lower case; interim responses are skipped."""
    lines = iter(range(MOST_LINES))
    for _ in range(MOST_INTERIM + 1):
        status, fields = await _head(reader, lines)
        if status not in INTERIM:
            return status, fields
    raise ValueError("it sent too many interim responses")


async def _head(reader: asyncio.StreamReader, lines: Iterator[int]) -> tuple[int, dict[str, str]]:
    version, status, *_ = (await reader.readline()).decode("latin-1").split() or ("", "")
    if not version.startswith("HTTP/1."):
        raise ValueError("the response was not HTTP" if version else "it closed the connection without a response")
    fields: dict[str, str] = {}
    size = 0
    while (line := await reader.readline()).strip():
        size += len(line)
        if size > LONGEST_HEAD or next(lines, None) is None:
            raise ValueError("the response head is too large")
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()
    if int(status) not in STATUSES:
        raise ValueError(f"the response has the status {status[:LONGEST_STATUS]}, which HTTP does not have")
    return int(status), fields


async def _body(reader: asyncio.StreamReader, fields: Mapping[str, str], most: Bytes) -> bytes:
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader, most)
    length = fields.get("content-length")
    return await (_read_to_end(reader, most) if length is None else _read(reader, min(int(length), most)))


async def _chunks(reader: asyncio.StreamReader, most: Bytes) -> bytes:
    body = bytearray()
    for _ in range(MOST_CHUNKS):
        size = int((await reader.readline()).partition(b";")[0], 16)
        body += await _read(reader, min(size, most - len(body)))
        if not size or len(body) >= most:
            return bytes(body)
        await reader.readline()
    raise ValueError("the response has too many chunks")


async def _read(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise ConnectionAbortedError("it closed the connection in the middle of its response") from None


async def _read_to_end(reader: asyncio.StreamReader, most: Bytes) -> bytes:
    try:
        return await reader.readexactly(most)
    except asyncio.IncompleteReadError as end:
        return end.partial


async def _pieces(
    reader: asyncio.StreamReader, fields: Mapping[str, str], quiet_s: Seconds
) -> AsyncGenerator[bytes, None]:
    read = _chunk if fields.get("transfer-encoding", "").lower() == "chunked" else _some
    while True:
        async with asyncio.timeout(quiet_s):
            piece = await read(reader)
        if not piece:
            return
        yield piece


async def _chunk(reader: asyncio.StreamReader) -> bytes:
    """Empty at the end of the response."""
    begin = await reader.readline()
    if not begin:
        raise ConnectionResetError("it closed the connection in the middle of its response")
    size = int(begin.partition(b";")[0], 16)
    if not 0 <= size <= LARGEST_CHUNK:
        raise ValueError("a chunk of the response is too large")
    try:
        return (await reader.readexactly(size + 2))[:-2]  # without the end of its line
    except asyncio.IncompleteReadError:
        raise ConnectionResetError("it closed the connection in the middle of its response") from None


async def _some(reader: asyncio.StreamReader) -> bytes:
    return await reader.read(PIECE)
