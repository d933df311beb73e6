"""GET /hotseat/config: the active configuration, resolved, read-only."""

from __future__ import annotations

from fastapi import APIRouter

from hotseat.api.deps import Deps
from hotseat.api.schemas import ConfigReport

router = APIRouter(prefix="/hotseat", tags=["hotseat"])


@router.get("/config", summary="The active configuration, resolved, with its warnings")
async def config(deps: Deps) -> ConfigReport:
    report = deps.config()
    return ConfigReport(resolved=report.resolved, warnings=list(report.problems), reload_errors=list(report.refused))
