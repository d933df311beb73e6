"""The run of restarts measures new connections, and notices lost places in a queue and lost or repeated messages."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import pytest
from bench.chaos.checker import Evidence, read_record, violations
from bench.chaos.client import End, RequestResult
from bench.chaos.hotseat_process import HotseatProcess
from bench.chaos.injecting import RESTART, Injected
from bench.chaos.requests import Behaviour, Kind, PlannedRequest
from bench.chaos.restart_clients import NARROW, FullQueue, NewConnection, NewConnections, WebsocketClient
from bench.chaos.upstream import PROGRAM
from tests.support.llama import REPOSITORY
from tests.support.ports import free_port
from tests.support.waiting import come_true, eventually
from websockets.asyncio.server import serve

from hotseat.model_servers.os_processes import children

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from websockets.asyncio.server import ServerConnection

    Talk = Callable[[ServerConnection], Awaitable[None]]

READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ADDRESS = "127.0.1.1"


# New connections


async def test_a_server_is_probed() -> None:
    """Each connection is a new one, and the server's answers are no problem."""
    asked, connections = 0, NewConnections()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /hotseat/ready ")
        writer.write(READY)
        writer.close()

    port = free_port()
    async with await asyncio.start_server(answer, "127.0.0.1", port), connections.probed(port):
        await come_true(lambda: asked >= 3)

    assert len(connections.seen) == asked
    assert connections.problems == []


async def test_a_server_closes_without_an_answer() -> None:
    """That is a problem, and so are the refused connections after it."""
    asked, port = asyncio.Event(), free_port()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        asked.set()
        writer.close()

    connections = NewConnections()
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with connections.probed(port):
        await asked.wait()

    assert len(connections.problems) == len(connections.seen) > 0


def test_what_a_restart_adds() -> None:
    """Connections that were open during a restart count apart from all others."""
    times = {0.0: 0.001, 1.0: 0.002, 2.0: 0.003, 9.9: 0.2, 10.5: 0.4, 12.0: 0.004}
    connections = NewConnections([NewConnection(began, took_s, "") for began, took_s in times.items()])

    everything, during, otherwise = connections.in_words([Injected(RESTART, 10.0, 11.0)])
    assert everything.startswith("new connections: 6, p50 3.5 ms, p99 ")
    assert everything.endswith("longest 400.0 ms")
    assert during == "  during a restart: 2, p50 300.0 ms, p99 398.0 ms, longest 400.0 ms"
    assert otherwise == "  otherwise: 4, p50 2.5 ms, p99 4.0 ms, longest 4.0 ms"


# Websockets


async def talked(port: int) -> list[RequestResult]:
    """What a client records until it was interrupted, or has sent twenty messages."""
    results: list[RequestResult] = []
    is_over = asyncio.Event()

    def record(result: RequestResult) -> None:
        results.append(result)
        if result.end is not End.WHOLE or len(results) == 20:
            is_over.set()

    client = WebsocketClient("w", port, ["red"], random.Random(1), lambda: len(results) // 5, record)
    await client.run(is_over)
    assert sum(each.messages for each in client.held) == sum(result.end is End.WHOLE for result in results)
    return results


@asynccontextmanager
async def websocket_server(talk: Talk) -> AsyncIterator[int]:
    async with serve(talk, "127.0.0.1", 0) as server:
        yield next(iter(server.sockets)).getsockname()[1]


@contextmanager
def scripted_server(folder: Path) -> Iterator[int]:
    (folder / "alive").mkdir()
    port = free_port()
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, str(REPOSITORY), str(port), "red", str(folder)]
    with subprocess.Popen(argv) as server:
        try:
            eventually(lambda: accepts(port))
            yield port
        finally:
            for pid in (*children(server.pid), server.pid):
                os.kill(pid, signal.SIGKILL)


def accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def test_every_message_comes_back_once(tmp_path: Path) -> None:
    """The scripted server echoes messages of any length, and records each."""
    with scripted_server(tmp_path) as port:
        results = await talked(port)

    assert [result.end for result in results] == [End.WHOLE] * 20
    assert {result.planned.words for result in results} == {1, 8, 400, 6_000}
    assert violations(Evidence(results, read_record(tmp_path / "record"), [], ["hello"])) == []


async def twice(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)
        await connection.send(message)


async def never_the_second(connection: ServerConnection) -> None:
    await connection.send(await connection.recv())
    await connection.recv()
    await connection.close()


@pytest.mark.parametrize(("talk", "says"), [(twice, "another answer"), (never_the_second, "broken after")])
async def test_a_message_comes_back_twice_or_never(talk: Talk, says: str) -> None:
    """Either is a violation, also if the connection was closed cleanly."""
    async with websocket_server(talk) as port:
        results = await talked(port)
    ran = [{"what": "ran", "id": result.planned.id} for result in results]

    assert says in violations(Evidence(results, ran, [], ["hello"]))[0]


async def test_nobody_accepts_websockets() -> None:
    """The client records that there was no connection, and does not try again without end."""
    (result,) = await talked(free_port())

    assert result.end is End.UNREACHED


async def test_the_last_message_comes_back_twice() -> None:
    """What the server sends until the end of the connection counts."""
    results: list[RequestResult] = []
    is_over = asyncio.Event()

    def record(result: RequestResult) -> None:
        results.append(result)
        is_over.set()

    async with websocket_server(twice) as port:
        await WebsocketClient("w", port, ["red"], random.Random(1), lambda: 0, record).run(is_over)

    assert "surplus" in results[-1].text


# The queue


@pytest.fixture
def queue(tmp_path: Path) -> FullQueue:
    """Of a hotseat that was never started."""
    return FullQueue(HotseatProcess(tmp_path / "rig"), "seed")


def refused(name: str) -> RequestResult:
    planned = PlannedRequest(name, NARROW, Kind.STREAM, "slow", Behaviour.PATIENT, 40, 0)
    return RequestResult(planned, End.ERROR, 429, "the queue is full", 0.0, 1e9)


@pytest.mark.parametrize(
    ("before", "now", "waiting", "count"),
    [
        ("queue0-1", "queue0-1", [ADDRESS], 1),
        ("queue0-1", "queue0-1", ["127.0.1.2"], 0),
        ("queue0-0", "queue0-1", [ADDRESS], 0),
    ],
    ids=["waited", "another client waited", "the former request waited"],
)
def test_a_request_is_refused(queue: FullQueue, before: str, now: str, waiting: list[str], count: int) -> None:
    """That is a problem only if it had a place already."""
    queue.asking[ADDRESS] = now
    queue.note({ADDRESS: before}, waiting)
    queue.results.append(refused("queue0-1"))

    assert len(list(queue.problems)) == count


def test_requests_that_waited_across_a_restart_are_counted(queue: FullQueue) -> None:
    """They were seen before the restart ended, and answered afterwards."""
    queue.asking[ADDRESS] = "queue0-1"
    queue.note({ADDRESS: "queue0-1"}, [ADDRESS])
    queue.results += [refused("queue0-1"), refused("queue0-2")]

    assert "1 of them across a restart" in queue.in_words([Injected(RESTART, 0.0, 1e8)])
