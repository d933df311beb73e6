"""The active configuration, resolved and read-only, and its reload."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.responses import failure
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
PIECES = 2000
"""Of its text, in a slice: each is a key, a value or a separator."""

INVALID = "The configuration is invalid and nothing was changed, or only the certificate could not be read."


class ConfigReport(Schema):
    resolved: Annotated[dict[str, Any], Field(description="With expanded macros and defaults, without secrets.")]
    warnings: Annotated[list[str], Field(description="Warnings and notes about the active configuration.")]
    reload_errors: Annotated[list[str], Field(description="Errors of the last reload; empty: it succeeded.")]


class Reloaded(Result):
    added: list[str]
    changed: Annotated[list[str], Field(description="Models that restart.")]
    removed: list[str]
    keys: Annotated[list[str], Field(description="Keys whose values changed, such as `models.qwen.ttl`.")]
    needs_restart: Annotated[
        list[str], Field(description="Keys, such as `fleet`, whose new values take effect after a restart.")
    ]


class ReloadFailure(Failure):
    problems: list[str]


@router.get("/config", summary="The active configuration, resolved, with its warnings", response_model=ConfigReport)
async def config(deps: Deps) -> Listing:
    report = await asyncio.to_thread(deps.config)
    short = ConfigReport(resolved={}, warnings=list(report.problems), reload_errors=list(report.refused))
    return Listing(page(short, resolved=ENCODER.iterencode(report.resolved)), size=PIECES)


@router.post(
    "/reload",
    summary="Reload the configuration; unchanged models keep running",
    response_model=Reloaded,
    responses={422: {"model": ReloadFailure, "description": INVALID}},
)
async def reload(deps: Deps) -> Reloaded | JSONResponse:
    result = await deps.reload()
    if result.problems:
        number = len(result.problems)
        errors = "1 error" if number == 1 else f"{number} errors"
        message = f"the configuration has {errors}; nothing was changed"
        if result.is_applied:
            message = "the configuration was reloaded, but not its certificate"
        return JSONResponse({**failure(message), "problems": result.problems}, 422)
    change = result.change
    return Reloaded(
        message="the configuration was reloaded",
        added=list(change.added),
        changed=list(change.changed),
        removed=list(change.removed),
        keys=list(result.keys),
        needs_restart=list(result.pending),
    )
