"""Serves the management app on a private socket, as an upstream that is always ready."""

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


class ApiServer(uvicorn.Server):
    """uvicorn without its signal handling: hotseat handles signals itself."""

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
async def served(app: FastAPI, sock: socket.socket) -> AsyncIterator[None]:
    """Serve the management app on its private socket; it answers inside the block. Raises if it cannot be served."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",  # no route uses WebSockets: importing their library would only slow the start
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    server = ApiServer(config)
    tasks = Tasks()
    serving = tasks.start(server.serve([sock]), "management api")
    serving.add_done_callback(lambda _: server.answers.set())
    await server.answers.wait()
    if serving.done():
        serving.result()
        raise RuntimeError("the management API has ended at its start")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([serving])
