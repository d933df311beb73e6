"""Assembles the management application. uvicorn serves it on a private unix socket behind the relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from hotseat.api.errors import add_error_handlers
from hotseat.api.headers import CommonHeaders
from hotseat.api.llama_cpp_models import StateChanges
from hotseat.api.routes import (
    config,
    docs_page,
    estimates,
    events,
    fleet,
    fleet_logs,
    fleet_requests,
    keys,
    llama_cpp,
    llama_swap,
    logs,
    management,
    models,
    ollama,
    profiles,
    requests,
    restart,
    status,
    traffic,
    usage,
    v1_models,
    yield_memory,
)

if TYPE_CHECKING:
    from hotseat.api.deps import ApiDeps


# A path like /hotseat/models/{name}/estimate must come before /hotseat/models/{name}, whose name may have slashes.
ROUTERS = (
    estimates, models, management, v1_models, status, requests, config, restart, keys, usage, profiles, yield_memory,
    fleet, fleet_logs, fleet_requests, events, logs, traffic, docs_page, ollama,
    llama_cpp, llama_swap,
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
