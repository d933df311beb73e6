"""How many requests a server works on at a time, asked of servers that tell, that do not, and that talk nonsense."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.virtual_time import skip

from hotseat.identifiers import Address
from hotseat.model_servers import llama_props
from hotseat.model_servers.llama_props import Props, props_of
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OK = b"HTTP/1.1 200 OK\r\n\r\n"


@asynccontextmanager
async def server(answer: bytes, *, hangs: bool = False, received: list[bytes] | None = None) -> AsyncIterator[Address]:
    """Answers every question with the same, and then closes or does not; `received` gets the questions."""

    said = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            if received is not None:
                received.append(request)
            writer.write(answer)
            if hangs:
                await reader.read()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            said.set()

    listening = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with listening:
        yield Address("127.0.0.1", listening.sockets[0].getsockname()[1])
        await said.wait()


@pytest.mark.parametrize(
    ("answer", "props"),
    [
        (OK + b'{"total_slots": 4, "default_generation_settings": {"n_ctx": 8192}}', Props(4, 8192)),
        (OK + b'{"total_slots": 4, "default_generation_settings": [8192]}', Props(4, None)),
        (OK + b'{"total_slots": 4, "chat_template": ""}', Props(4, None)),
        (OK + b'{"total_slots": 0}', Props()),
        (OK + b'{"total_slots": true}', Props()),
        (OK + b'{"model": "other"}', Props()),
        (OK + b"[4]", Props()),
        (OK + b"<html>", Props()),
        (b'HTTP/1.1 401 Unauthorized\r\n\r\n{"total_slots": 4}', Props()),
        (b"220 mail.example.org ESMTP\r\n", Props()),
        (b"", Props()),
    ],
)
async def test_what_servers_say(answer: bytes, props: Props) -> None:
    """Positive numbers in a 200 are believed; everything else is no answer."""
    async with server(answer) as address:
        assert await props_of(address) == props


@pytest.mark.parametrize(("size", "props"), [(256 << 10, Props(4)), ((256 << 10) + 1, Props())])
async def test_the_longest_response_that_is_read(size: int, props: Props) -> None:
    """A chat template may be long, but a MiB of JSON may take a tenth of a second of the event loop."""
    begin, end = b'{"chat_template": "', b'", "total_slots": 4}'
    async with server(OK + begin + b"x" * (size - len(begin + end)) + end) as address:
        assert await props_of(address) == props


async def test_a_server_that_demands_a_key() -> None:
    """It is asked with its own."""
    requests = list[bytes]()
    async with server(OK + b'{"total_slots": 4}', received=requests) as address:
        assert await props_of(address, "sesame") == Props(4)

    assert b"\r\nAuthorization: Bearer sesame\r\n" in requests[0]


async def test_nobody_listens() -> None:
    """A server that is gone meanwhile fails nothing."""
    async with server(b"") as address:
        await props_of(address)

    assert await props_of(address) == Props()


async def test_a_server_that_never_ends_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for."""
    monkeypatch.setattr(llama_props, "PATIENCE_S", 0.05)
    async with server(OK + b"{", hangs=True) as address:
        assert await props_of(address) == Props()


async def test_a_server_that_is_busy_with_its_first_requests() -> None:
    """Nothing waits for its answer, which may come seconds later."""
    was_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        was_asked.set()
        await may_answer.wait()
        writer.write(OK + b'{"total_slots": 4}')
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
        address = Address("127.0.0.1", listening.sockets[0].getsockname()[1])
        asking = Tasks().start(props_of(address), "ask")
        await was_asked.wait()
        skip(8.0)
        for _ in range(10):  # what is over ends now
            await asyncio.sleep(0)
        may_answer.set()

        assert await asking == Props(4)
