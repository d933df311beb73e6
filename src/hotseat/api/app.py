"""The management application: assembled from its routes, and served on a private unix socket behind the relay."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

from hotseat.api.llama_cpp_models import StateChanges
from hotseat.api.responses import CommonHeaders, add_error_handlers
from hotseat.api.routes import (
    config,
    docs_page,
    estimates,
    events,
    fleet,
    fleet_logs,
    fleet_requests,
    for_all_models,
    keys,
    llama_cpp,
    llama_swap,
    logs,
    management,
    models,
    ollama,
    requests,
    status,
    traffic,
    usage,
    v1_models,
)
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from hotseat.api.deps import ApiDeps

# A path like /hotseat/models/{name}/estimate must come before /hotseat/models/{name}, whose name may have slashes.
ROUTERS = (
    estimates, models, management, v1_models, status, requests, config, keys, usage, for_all_models, fleet, fleet_logs,
    fleet_requests, events, logs, traffic, docs_page, ollama, llama_cpp, llama_swap,
)  # fmt: skip


def build(deps: ApiDeps) -> FastAPI:
    # FastAPI's own pages load files from the internet; docs_page.py serves ours.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.deps = deps
    app.state.model_changes = StateChanges(deps)
    for router in ROUTERS:
        app.include_router(router.router)
    app.mount("/hotseat/assets", docs_page.assets)
    app.add_middleware(CommonHeaders)
    add_error_handlers(app, deps)
    return app


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
