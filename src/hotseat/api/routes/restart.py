"""Restarts hotseat without unloading a model."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from hotseat.api.deps import FOR_ALL_MODELS, Deps, FromHost, Sender
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.errors import Forbidden

router = APIRouter(prefix="/hotseat/restart", tags=["hotseat"])

REFUSALS: Responses = {
    403: {"model": Failure, "description": "No API keys are configured, or the key may not restart hotseat."},
    409: {"model": Failure, "description": "A restart is in progress."},
    503: {"model": Failure, "description": "The new process could not take over; the old one continues."},
}
WITHOUT_KEYS = (
    "without API keys hotseat can only be restarted on its own machine, with `hotseat restart`; to do it from here,"
    " configure a key with the role admin"
)


class RestartState(Schema):
    pid: int
    started_at: Annotated[float, Field(description="Wall-clock time.")]
    is_in_progress: bool
    attempts: Annotated[int, Field(description="Since this process started.")]
    problem: Annotated[str, Field(description="Why the last attempt failed; empty if it did not.")]


@router.post(
    "",
    summary="Replace the process by the installed program; models keep running",
    responses=REFUSALS,
    dependencies=[FOR_ALL_MODELS],
)
async def restart(deps: Deps, sender: Sender, from_host: FromHost) -> Result:
    if sender is None and from_host is None:
        raise Forbidden(WITHOUT_KEYS)
    pid = await deps.restarts.restart()
    return Result(message=f"process {pid} has taken over")


@router.get("", summary="The process that serves, and how its last attempt to restart went")
async def state(deps: Deps) -> RestartState:
    restarts = deps.restarts
    return RestartState(
        pid=restarts.serving_pid,
        started_at=deps.started_at,
        is_in_progress=restarts.is_in_progress,
        attempts=restarts.attempts,
        problem=restarts.problem,
    )
