"""GET /hotseat/config: the active configuration, resolved, read-only."""

from __future__ import annotations

from fastapi import APIRouter

from hotseat.api.dependencies import Here
from hotseat.api.schemas import ConfigReport

router = APIRouter(prefix="/hotseat", tags=["hotseat"])


@router.get("/config", summary="The active configuration, resolved, with its warnings")
async def config(here: Here) -> ConfigReport:
    report = here.config()
    return ConfigReport(resolved=report.resolved, warnings=list(report.complaints), reload_errors=list(report.refused))
