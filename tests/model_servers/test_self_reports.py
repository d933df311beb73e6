"""What a ready server says about its slots and its context, and its page of metrics."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support import llama
from tests.support.misbehaving_servers import HEALTHY
from tests.support.virtual_time import skip
from tests.support.waiting import come_true_async

from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import Address, LaunchId, ModelName
from hotseat.model_servers import self_reports
from hotseat.model_servers.self_reports import LARGEST, Props, metrics_of, props_of
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.supervisor_rig import SupervisorRig

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
    monkeypatch.setattr(self_reports, "PROPS_PATIENCE_S", 0.05)
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


TEXT = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
CHUNKED = TEXT + b"Transfer-Encoding: chunked\r\n\r\n"


def sized(body: bytes, length: int | None = None) -> bytes:
    return TEXT + f"Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("answer", "page"),
    [
        (sized(b"x 1\n"), "x 1\n"),
        (sized(b""), ""),
        (TEXT + b"\r\nx 1\n", "x 1\n"),
        (CHUNKED + b"4\r\nx 1\n\r\n0\r\n\r\n", "x 1\n"),
        (sized(b"#" * LARGEST), "#" * LARGEST),
    ],
    ids=["sized", "empty", "until the end", "chunked", "largest"],
)
async def test_a_server_with_a_page(answer: bytes, page: str) -> None:
    """The page is what the server sends."""
    async with server(answer) as address:
        assert await metrics_of(address) == page


@pytest.mark.parametrize(
    "answer",
    [
        HEALTHY,
        TEXT.replace(b"text/plain", b"text/html") + b"\r\n<html>",
        TEXT.replace(b"200 OK", b"404 Not Found") + b"\r\nx 1\n",
        b"HTTP/1.1 501 Not Implemented\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /other\r\n\r\n",
        sized(b"#" * (LARGEST + 1)),
        TEXT + b"\r\n" + b"#" * (LARGEST + 1),
        CHUNKED + f"{LARGEST + 1:x}\r\n".encode() + b"#" * (LARGEST + 1),
        sized(b"x 1", length=5),
        CHUNKED + b"5\r\nx 1",
        CHUNKED + b"4\r\nx 1\n\r\n",
        sized(b"\xff\n"),
        b"220 mail.example.org ESMTP\r\n",
        b"",
    ],
    ids=[
        "no type", "a web page", "not found", "not implemented", "redirect", "too large", "endless",
        "too large in chunks", "cut", "cut in a chunk", "cut between chunks", "not UTF-8", "not HTTP", "nothing",
    ],
)  # fmt: skip
async def test_a_server_without_a_page(answer: bytes) -> None:
    """Half a page is none: its last number would be another."""
    async with server(answer) as address:
        assert await metrics_of(address) is None


async def test_a_server_that_does_not_answer() -> None:
    """Nobody waits for longer than the deadline, also if a part of the page has come."""
    async with server(sized(b"x 1\n", length=99), hangs=True) as address:
        assert await metrics_of(address, within=0.05) is None


async def test_a_server_that_is_gone() -> None:
    """A refused connection is not an error."""
    assert await metrics_of(Address("127.0.0.1", 1)) is None


async def test_what_a_server_is_asked() -> None:
    """Only for text, in which nothing else is needed, and with its own key if it demands one."""
    received: list[bytes] = []
    for key in ("", "sesame"):
        async with server(sized(b"x 1\n"), received=received) as address:
            await metrics_of(address, key)

    assert [request.split(b"\r\n")[0] for request in received] == [b"GET /metrics HTTP/1.1"] * 2
    assert all(b"\r\nAccept: text/plain\r\n" in request for request in received)
    assert [b"Authorization: Bearer sesame\r\n" in request for request in received] == [False, True]


# The real llama-server


def model(options: str) -> ModelSpec:
    argv = tuple(shlex.split(llama.command("alpha", "${PORT}", options)))
    return ModelSpec(ModelName("qwen"), LaunchRecipe(argv, "http://127.0.0.1:${PORT}"))


@pytest.mark.llama
async def test_llama_server_with_a_key_is_asked_with_it(rig: SupervisorRig) -> None:
    """The supervisor knows the key of each server; after its end there is nobody to ask."""
    ready = await rig.ready(model("--metrics --api-key sesame"))
    page = await rig.supervisor.own_metrics(ready.launch)
    await rig.end(ready)

    assert page
    assert "# TYPE llamacpp:n_tokens_max counter\n" in page
    assert await rig.supervisor.own_metrics(ready.launch) is None
    assert await rig.supervisor.own_metrics(LaunchId(99)) is None


@pytest.mark.llama
async def test_llama_server_is_neither_kept_awake_nor_woken(rig: SupervisorRig) -> None:
    """It falls asleep by itself while it is asked for its metrics all the time, and goes on sleeping."""
    ready = await rig.ready(model("--metrics --sleep-idle-seconds 2"))

    async def is_asked_asleep() -> bool:
        was_asleep = bool(rig.lines_with("entering sleeping state"))
        assert await rig.supervisor.own_metrics(ready.launch)
        return was_asleep

    await come_true_async(is_asked_asleep)
    assert await rig.supervisor.own_metrics(ready.launch)
    await rig.end(ready)

    assert rig.lines_with("exiting sleeping state") == []
