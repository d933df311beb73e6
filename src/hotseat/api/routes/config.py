"""GET /hotseat/config: the active configuration, resolved, read-only."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.schema_base import Schema

router = APIRouter(prefix="/hotseat", tags=["hotseat"])


class ConfigReport(Schema):
    resolved: Annotated[dict[str, Any], Field(description="With expanded macros and defaults, without secrets.")]
    warnings: Annotated[list[str], Field(description="Warnings and notes about the active configuration.")]
    reload_errors: Annotated[list[str], Field(description="Why the last reload failed; empty: it succeeded.")]


@router.get("/config", summary="The active configuration, resolved, with its warnings")
async def config(deps: Deps) -> ConfigReport:
    report = deps.config()
    return ConfigReport(resolved=report.resolved, warnings=list(report.problems), reload_errors=list(report.refused))
