"""Serves the management app on a private socket, as an upstream that is always ready."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fastapi import FastAPI

    from hotseat.identifiers import Address


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
async def served(app: FastAPI, address: Address) -> AsyncIterator[None]:
    """Serve the management app on its private socket; it answers inside the block."""
    assert address.unix_path is not None
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
    with private_socket(address.unix_path) as sock:
        serving = tasks.start(server.serve([sock]), "management api")
        await server.answers.wait()
        try:
            yield
        finally:
            server.should_exit = True
            await asyncio.wait([serving])


@contextmanager
def private_socket(path: str) -> Iterator[socket.socket]:
    """Only our user may connect, since no key is checked here. uvicorn's own socket would admit everybody."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with only_for_us():
            sock.bind(path)
        yield sock
    finally:
        sock.close()
        Path(path).unlink(missing_ok=True)


@contextmanager
def only_for_us() -> Iterator[None]:
    """Files created inside the block have mode 0600. fchmod on a socket works only on Linux."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
