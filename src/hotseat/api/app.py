"""The management application, put together. uvicorn serves it on a private unix socket; the relay leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from hotseat.api import (
    asking,
    configured,
    feeds,
    fleet,
    keys,
    listing,
    management,
    observing,
    pages,
    profiles,
    recording,
    yielding,
)
from hotseat.api.failures import tell_failures
from hotseat.api.manners import Manners

if TYPE_CHECKING:
    from hotseat.api.house import House


ROOMS = (
    management, listing, observing, asking, configured, keys, profiles, yielding, fleet, feeds, recording, pages,
)  # fmt: skip


def build(house: House) -> FastAPI:
    """All management routes for one house."""
    # FastAPI's own pages load from the internet; ours are in pages.py.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.house = house
    for room in ROOMS:
        app.include_router(room.router)
    app.mount("/hotseat/assets", pages.assets)
    app.add_middleware(Manners)
    tell_failures(app, house)
    return app
