"""llama-swap's own API, for scripts and tools that were written for it."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from hotseat.api.deps import FOR_ALL_MODELS, ApiDeps, Caller, Deps
from hotseat.api.disconnect import LiveStream, listening, unless_gone
from hotseat.api.llama_swap_events import MOST_LINES, swap_feed
from hotseat.api.llama_swap_models import swap_activity
from hotseat.api.llama_swap_schemas import SwapActivity, SwapActivityPage, SwapDone
from hotseat.api.log_text import as_text
from hotseat.api.routes.events import EVENTS, HEARTBEAT_S
from hotseat.api.routes.logs import newest, page
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schema_base import Error
from hotseat.api.slices import joined
from hotseat.errors import Forbidden, NotRunning

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hotseat.api.deps import LogSource
    from hotseat.identifiers import ModelName

router = APIRouter(tags=["llama-swap"])

TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Text."}}
FOR_SOME: Responses = {403: {"model": Error, "description": "The API key is for other models, or it is a browser."}}
NOBODY: Responses = {404: {"model": Error, "description": "The model is not defined in the configuration."}}


# Actions


@router.get(
    "/unload",
    summary="Stop all models; responds when they have stopped. Not for browsers",
    response_class=Response,
    responses={**TEXT, **FOR_SOME},
    dependencies=[FOR_ALL_MODELS],
)
async def unload_all_by_get(request: Request, deps: Deps) -> PlainTextResponse:
    refuse_browsers(request)
    await unload_all(request, deps)
    return PlainTextResponse("OK")


@router.post(
    "/api/models/unload",
    summary="Stop all models; responds when they have stopped",
    responses=FOR_SOME,
    dependencies=[FOR_ALL_MODELS],
)
async def unload_all_by_post(request: Request, deps: Deps) -> SwapDone:
    await unload_all(request, deps)
    return SwapDone()


@router.post(
    "/api/models/unload/{model:path}",
    summary="Stop a model; responds when it has stopped",
    response_class=Response,
    responses={**TEXT, **NOBODY, **FOR_SOME},
)
async def unload_one(model: str, request: Request, deps: Deps, caller: Caller) -> PlainTextResponse:
    spec = deps.dispatcher.catalog.resolve(model)
    if caller is not None:
        caller.check_may_use(spec.name)
    await unless_gone(request.receive, stopped(deps, spec.name))
    return PlainTextResponse("OK")


def refuse_browsers(request: Request) -> None:
    """Any page can make a browser GET an address; to plain HTTP, a browser does not even say from which page."""
    if request.headers.get("user-agent", "").startswith("Mozilla/") or "sec-fetch-mode" in request.headers:
        raise Forbidden("a browser may not stop models with GET /unload; use the dashboard at /hotseat/ui/")


async def unload_all(request: Request, deps: ApiDeps) -> None:
    models = deps.dispatcher.views.current().models
    present = [seen.name for seen in models if seen.phase.takes_memory or seen.waiting]
    ends = asyncio.gather(*(stopped(deps, name) for name in present), return_exceptions=True)
    for end in await unless_gone(request.receive, ends):
        if isinstance(end, BaseException):
            raise end


async def stopped(deps: ApiDeps, model: ModelName) -> None:
    """As in llama-swap, a model that does not run is no error."""
    try:
        await deps.dispatcher.operator.unload(model)
    except NotRunning:
        return


# Logs


@router.get(
    "/logs", summary="The last log lines; browsers are led to the dashboard", response_class=Response, responses=TEXT
)
async def logs(request: Request, deps: Deps) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("hotseat/ui/#/logs")
    return page(await newest(deps.logs.all(), MOST_LINES), in_json=False)


@router.get("/logs/stream", summary="Log lines, live", response_class=Response, responses={**TEXT, **UNKNOWN})
@router.get(
    "/logs/stream/{source:path}",
    summary="Log lines of hotseat (`proxy`), of all models (`upstream`) or of one, live",
    response_class=Response,
    responses={**TEXT, **UNKNOWN},
)
async def log_stream(request: Request, deps: Deps, source: str = "") -> Response:
    return LiveStream(
        text_feed(log_sources(deps, source), with_past="no-history" not in request.query_params), "text/plain"
    )


def log_sources(deps: ApiDeps, source: str) -> Sequence[LogSource]:
    match source:
        case "":
            return deps.logs.all()
        case "proxy":
            return [deps.logs.own]
        case "upstream":
            return deps.logs.all()[1:]
    return [deps.logs.of_model(deps.dispatcher.catalog.resolve(source).name)]


async def text_feed(sources: Sequence[LogSource], *, with_past: bool) -> AsyncGenerator[str, None]:
    async with listening([source.follow() for source in sources], HEARTBEAT_S) as coming:
        past = await newest(sources, MOST_LINES if with_past else 0)
        async for part in joined(f"{as_text(line)}\n" for line in past):
            yield part
        async for line in coming:
            if line is not None:
                yield f"{as_text(line)}\n"


# Activity


@router.get("/api/events", summary="Models, log lines and requests, live", response_class=Response, responses=EVENTS)
async def events(deps: Deps) -> Response:
    return LiveStream(swap_feed(deps))


@router.get("/api/metrics", summary="The recent requests, oldest first")
async def metrics(deps: Deps) -> list[SwapActivity]:
    return [swap_activity(request) for request in deps.activity.recent()]


@router.get("/api/metrics/activity", summary="The recent requests in pages, newest first")
async def activity(
    deps: Deps,
    model: Annotated[str, Query(description="One model; default: all.")] = "",
    limit: Annotated[int, Query(ge=1, le=999)] = 25,
    page: Annotated[int, Query(ge=1)] = 1,
) -> SwapActivityPage:
    found = [request for request in reversed(deps.activity.recent()) if model in ("", request.model)]
    shown = found[(page - 1) * limit : page * limit]
    return SwapActivityPage(
        data=[swap_activity(request) for request in shown],
        page=page,
        limit=limit,
        total=len(found),
        total_pages=ceil(len(found) / limit),
    )
