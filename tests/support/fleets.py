"""Both implementations of the fleet's store behind one interface, so that the same tests run on both."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from tests.support.in_process_store import Board, InProcess
from tests.support.nats import nats_servers
from tests.support.waiting import PATIENCE_S

from hotseat.fleet.backoff import Backoff
from hotseat.fleet.jetstream.store import JetStream
from hotseat.fleet.store import Bucket
from hotseat.identifiers import HostName
from hotseat.settings import Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tests.support.nats import NatsServer

    from hotseat.fleet.store import Change, Store

SHORT_S = 1.0
LIVES_S = {Bucket.HOSTS: SHORT_S, Bucket.CLAIMS: 600.0, Bucket.CATALOGS: 86_400.0, Bucket.ORDERS: None}
OPERATION_S = 10.0
"""For one operation on a busy machine."""


class Engine(Protocol):
    async def store(self) -> Store:
        """Another host's connection to the same buckets."""
        ...

    async def interrupt(self) -> None:
        """Disconnect all clients, and let them reconnect."""
        ...


class BoardEngine:
    def __init__(self) -> None:
        self._board = Board(lives_s=LIVES_S)
        self._stores: list[InProcess] = []

    async def store(self) -> Store:
        self._stores.append(InProcess(self._board))
        return self._stores[-1]

    async def interrupt(self) -> None:
        for store in self._stores:
            store.cut_off()
        await asyncio.sleep(0)
        for store in self._stores:
            store.let_in()


class NatsEngine:
    def __init__(self, servers: list[NatsServer], stack: AsyncExitStack) -> None:
        self.servers = servers
        self._stack = stack

    async def store(self) -> JetStream:
        store = JetStream(
            fleet_at(*self.servers), patience_s=OPERATION_S, pauses=lambda: Backoff(0.05, 0.2), lives_s=LIVES_S
        )
        self._stack.push_async_callback(store.aclose)
        store.open()
        assert await store.until_connected(PATIENCE_S)
        return store

    async def interrupt(self) -> None:
        for server in self.servers:
            server.kill()
            server.start()
        for server in self.servers:
            await server.until_healthy()


def fleet_at(*servers: NatsServer) -> Fleet:
    return Fleet(tuple(server.url for server in servers), HostName("test"))


@asynccontextmanager
async def engine_called(name: str, folder: Path) -> AsyncIterator[Engine]:
    if name == "in process":
        yield BoardEngine()
        return
    async with nats_servers(folder) as servers, AsyncExitStack() as stack:
        yield NatsEngine(servers, stack)


class Watching:
    """The changes a watcher has received; a context manager, so that no watch is leaked."""

    def __init__(self, store: Store, bucket: Bucket) -> None:
        self._changes: AsyncGenerator[Change, None] = store.watch(bucket)  # type: ignore[assignment]  # both stores' are generators

    async def __aenter__(self) -> Watching:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._changes.aclose()

    async def next(self) -> Change:
        async with asyncio.timeout(PATIENCE_S):
            return await anext(self._changes)

    async def until(self, kind: type[Change]) -> list[Change]:
        """Everything up to and including the first change of this kind."""
        changes = [await self.next()]
        while not isinstance(changes[-1], kind):
            changes.append(await self.next())
        return changes
