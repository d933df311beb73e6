"""The contract's management endpoints: status, load, unload, metrics."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from hotseat.api.deps import ApiDeps, Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.schema_base import Failure, Result, Schema

router = APIRouter(tags=["management"])

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

Responses = dict[int | str, dict[str, Any]]
UNKNOWN: Responses = {404: {"model": Failure, "description": "The model is not defined in the configuration."}}
NOT_RUNNING: Responses = {409: {"model": Failure, "description": "The model is not running."}}
LOAD_FAILED: Responses = {503: {"model": Failure, "description": "The model failed to start or timed out."}}
LINE_FULL: Responses = {429: {"model": Failure, "description": "The queue is full; see Retry-After."}}
METRICS: Responses = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus text."},
    404: {"model": Failure, "description": "Disabled with `metrics: false`."},
}


class RunningModel(Schema):
    status: Literal["running"] = "running"
    pid: Annotated[int | None, Field(description="Process id of the model server; null if it runs on another host.")]


class Health(Schema):
    status: Literal["ok"] = "ok"
    models: dict[str, RunningModel]


class Running(Schema):
    running: list[str]


@router.get("/idle", include_in_schema=False)
async def no_model_is_ready(deps: Deps) -> PlainTextResponse:
    """What the bare address says to programs while there is no model server that could answer."""
    leaving = ", ".join(deps.dispatcher.questions.draining())
    state = f"it is unloading {leaving}" if leaving else "no model is loaded"
    return PlainTextResponse(f"hotseat is running, and {state}. GET /v1/models lists the models.\n")


@router.get("/health", summary="Health, and the running models")
async def health(deps: Deps) -> Health:
    running = deps.dispatcher.views.current().running()
    return Health(models={m.name: RunningModel(pid=m.upstream.shown_pid if m.upstream else None) for m in running})


@router.get("/running", summary="Names of the running models")
async def running(deps: Deps) -> Running:
    return Running(running=[model.name for model in deps.dispatcher.views.current().running()])


@router.get(
    "/upstream/{model:path}/load",
    summary="Load a model; responds when it is ready",
    responses={**UNKNOWN, **LINE_FULL, **LOAD_FAILED},
)
async def load(model: str, request: Request, deps: Deps) -> Result:
    spec = deps.dispatcher.catalog.resolve(model)
    await unless_gone(request.receive, deps.dispatcher.operator.load(spec.name))
    return Result(message=f"{spec.name} is ready")


@router.delete(
    "/upstream/{model:path}",
    summary="Stop a model; responds when its process has exited",
    responses={**UNKNOWN, **NOT_RUNNING},
)
async def unload(
    model: str,
    request: Request,
    deps: Deps,
    force: Annotated[bool, Query(description="Do not wait for requests in flight.")] = False,
) -> Result:
    spec = deps.dispatcher.catalog.resolve(model)
    await unless_gone(request.receive, deps.dispatcher.operator.unload(spec.name, force=force))
    return Result(message=f"{spec.name} has stopped")


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response, responses=METRICS)
async def metrics(deps: Deps) -> Response:
    check_enabled(deps)
    return Response(await deps.metrics(), media_type=PROMETHEUS_TEXT)


@router.get(
    "/metrics/upstreams", summary="Metrics of the ready model servers", response_class=Response, responses=METRICS
)
async def upstream_metrics(deps: Deps) -> Response:
    check_enabled(deps)
    return Response(await deps.upstream_metrics(), media_type=PROMETHEUS_TEXT)


def check_enabled(deps: ApiDeps) -> None:
    if not deps.settings().metrics:
        raise HTTPException(HTTPStatus.NOT_FOUND, "metrics are disabled with `metrics: false` in the configuration")
