"""Serves the management app on a private socket, as one more upstream that is always ready."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from fastapi import FastAPI

    from hotseat.terms import Address


class ApiServer(uvicorn.Server):
    """uvicorn without its own signal handling: signals are ours."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: FastAPI, address: Address) -> AsyncIterator[None]:
    """Serve the management app on its private socket; inside the block it answers."""
    assert address.unix_path is not None
    config = uvicorn.Config(
        app,
        uds=address.unix_path,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    server = ApiServer(config)
    tasks = Tasks()
    serving = tasks.start(server.serve(), "management api")
    await server.answers.wait()
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([serving])
