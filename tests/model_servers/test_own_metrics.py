"""A model server's own metrics, asked of servers that have them, that do not, and that do not answer as they should."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from tests.model_servers.test_llama_props import server
from tests.support import llama
from tests.support.misbehaving_servers import HEALTHY
from tests.support.waiting import come_true_async

from hotseat.catalog.spec import LaunchRecipe, ModelSpec
from hotseat.identifiers import Address, LaunchId, ModelName
from hotseat.model_servers.own_metrics import LARGEST, metrics_of

if TYPE_CHECKING:
    from tests.support.supervisor_rig import SupervisorRig

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
