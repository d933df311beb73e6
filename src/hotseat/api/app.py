"""The management application, put together. uvicorn serves it on a private unix socket; the relay leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from hotseat.api.errors import tell_failures
from hotseat.api.headers import Manners
from hotseat.api.routes import (
    config,
    docs_page,
    events,
    fleet,
    keys,
    management,
    profiles,
    requests,
    status,
    traffic,
    v1_models,
    yield_memory,
)

if TYPE_CHECKING:
    from hotseat.api.deps import House


ROOMS = (
    management, v1_models, status, requests, config, keys, profiles, yield_memory, fleet, events, traffic, docs_page,
)  # fmt: skip


def build(house: House) -> FastAPI:
    """All management routes for one house."""
    # FastAPI's own pages load from the internet; ours are in docs_page.py.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.house = house
    for room in ROOMS:
        app.include_router(room.router)
    app.mount("/hotseat/assets", docs_page.assets)
    app.add_middleware(Manners)
    tell_failures(app, house)
    return app
