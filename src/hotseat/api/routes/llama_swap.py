"""llama-swap's own API, for scripts and tools that were written for it. The names of the fields are llama-swap's.

Each event of its feed has a `type` and, as `data`, a JSON text. First the log lines and the models; then, live, log
lines (`logData`), all models whenever one changes (`modelStatus`), finished requests (`metrics`; `activity` is the
number of the last one), and the number of requests in progress (`inflight`).
"""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from pydantic import Field

from hotseat.api.deps import FOR_ALL_MODELS, ApiDeps, Caller, Deps, permitted
from hotseat.api.disconnect import LiveStream, listening, unless_gone
from hotseat.api.log_text import as_text, moment
from hotseat.api.routes.events import EVENTS, HEARTBEAT, HEARTBEAT_S
from hotseat.api.routes.logs import newest, page
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.routes.requests import path_of
from hotseat.api.schema_base import Error, Schema
from hotseat.api.slices import joined, rows, taken
from hotseat.dispatch.journal import Entry, Gap
from hotseat.errors import Forbidden, NotRunning
from hotseat.identifiers import LogLine
from hotseat.scheduling.lifecycle import Phase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from hotseat.activity.recent import Finished
    from hotseat.api.deps import LogSource
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName

router = APIRouter(tags=["llama-swap"])

SwapState = Literal["stopped", "starting", "ready", "stopping"]
UNREPORTED = -1
"""llama-swap's number for a figure that the model server does not report."""
STATES: dict[Phase, SwapState] = {
    Phase.LOADING: "starting",
    Phase.READY: "ready",
    Phase.DRAINING: "stopping",
    Phase.UNLOADING: "stopping",
}
"""All others are stopped."""
TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Text."}}
FOR_SOME: Responses = {403: {"model": Error, "description": "The API key is for other models, or it is a browser."}}
NOBODY: Responses = {404: {"model": Error, "description": "The model is not defined in the configuration."}}
MOST_LINES = 1000
"""Of the past."""
EVERY_S = 1.0
"""Requests that end are not in the journal, so they are looked for."""


class SwapDone(Schema):
    msg: Literal["ok"] = "ok"


class SwapModel(Schema):
    id: str
    name: str
    description: str
    state: SwapState
    unlisted: bool
    peerID: str = ""
    aliases: list[str]


class SwapTokens(Schema):
    cache_tokens: int
    draft_tokens: int = 0
    draft_acc_tokens: int = 0
    input_tokens: int
    output_tokens: int
    prompt_per_second: float = UNREPORTED
    tokens_per_second: float


class SwapActivity(Schema):
    """One finished request."""

    id: int
    timestamp: str
    src: Annotated[str, Field(description="The client.")]
    model: str
    req_path: str
    resp_content_type: Annotated[str, Field(description="Always empty: hotseat does not keep it.")] = ""
    resp_status_code: int
    tokens: SwapTokens
    duration_ms: int
    has_capture: Annotated[bool, Field(description="hotseat stores no contents.")] = False


class SwapActivityPage(Schema):
    data: list[SwapActivity]
    page: int
    limit: int
    total: int
    total_pages: int


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
    spec = permitted(model, deps, caller)
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


async def swap_feed(deps: ApiDeps) -> AsyncGenerator[str, None]:
    sources: list[AsyncGenerator[LogLine | Entry | Gap | _Tick, None]] = [
        deps.journal.follow(),
        ticks(),
        *(source.follow() for source in deps.logs.all()),
    ]
    async with listening(sources, HEARTBEAT_S) as items:
        news = News(deps)
        async for message in news.first():
            yield message
        async for item in items:
            async for message in news.after(item):
                yield message


async def ticks() -> AsyncGenerator[_Tick, None]:
    while True:
        await asyncio.sleep(EVERY_S)
        yield _Tick.TICK


class _Tick(Enum):
    TICK = "look for requests that ended"


class News:
    """What has been sent, so that only changes follow."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._catalog: Catalog | None = None
        self._states: dict[ModelName, SwapState] = {}
        self._models = ""
        self._in_flight = -1
        self._n = 0

    async def first(self) -> AsyncGenerator[str, None]:
        for sources in ([self._deps.logs.own], self._deps.logs.all()[1:]):
            async for messages in joined(map(log_data, await newest(sources, MOST_LINES))):
                yield messages
        for message in await self._changed_models():
            yield message
            await asyncio.sleep(0)  # it may be long, and so may the next one
        for message in self._requests():
            yield message

    async def after(self, item: LogLine | Entry | Gap | _Tick | None) -> AsyncGenerator[str, None]:
        match item:
            case LogLine():
                yield log_data(item)
            case Entry() | Gap():
                for message in await self._changed_models():
                    yield message
            case _Tick():
                for message in self._requests():
                    yield message
            case None:
                yield HEARTBEAT

    async def _changed_models(self) -> list[str]:
        """All models if one has changed, since llama-swap has no other message."""
        catalog, states = self._deps.dispatcher.catalog, swap_states(self._deps)
        if catalog is self._catalog and states == self._states:
            return []
        self._catalog, self._states = catalog, states
        models = "".join(await taken(rows(swap_models(catalog, states))))
        if models == self._models:
            return []
        self._models = models
        return [envelope("modelStatus", models)]

    def _requests(self) -> Iterator[str]:
        if rows := [swap_activity(request).model_dump() for request in self._deps.activity.recent(self._n)]:
            self._n = rows[-1]["id"]
            yield envelope("metrics", json.dumps(rows))
            yield envelope("activity", json.dumps({"id": self._n}))
        in_flight = len(self._deps.in_progress())
        if in_flight != self._in_flight:
            self._in_flight = in_flight
            yield envelope("inflight", json.dumps({"total": in_flight}))


def log_data(line: LogLine) -> str:
    source = "proxy" if line.model is None else "upstream"
    return envelope("logData", json.dumps({"source": source, "data": f"{as_text(line)}\n"}))


def envelope(kind: str, data: str) -> str:
    message: dict[str, Any] = {"type": kind, "data": data}
    return f"event:message\ndata:{json.dumps(message)}\n\n"


def swap_states(deps: ApiDeps) -> dict[ModelName, SwapState]:
    """Of the models that are not stopped."""
    seen = deps.dispatcher.views.current().models
    return {model.name: STATES[model.phase] for model in seen if model.phase in STATES}


def swap_models(catalog: Catalog, states: Mapping[ModelName, SwapState]) -> Iterator[SwapModel]:
    for spec in catalog.models.values():
        yield SwapModel(
            id=spec.name,
            name=spec.title,
            description=spec.description,
            state=states.get(spec.name, "stopped"),
            unlisted=spec.unlisted,
            aliases=list(spec.aliases),
        )
    remotes = {remote.name: remote for remote in catalog.remotes.values()}
    for name, remote in remotes.items():
        yield SwapModel(id=name, name="", description="", state="ready", unlisted=False, peerID=remote.peer, aliases=[])


def swap_activity(request: Finished) -> SwapActivity:
    tokens, per_second = request.tokens, request.tokens_per_s
    return SwapActivity(
        id=request.n,
        timestamp=moment(request.at, None),
        src=request.client,
        model=request.model,
        req_path=path_of(request.target),
        resp_status_code=request.status,
        tokens=SwapTokens(
            cache_tokens=UNREPORTED if tokens is None or tokens.cached is None else tokens.cached,
            input_tokens=(tokens and tokens.prompt) or 0,
            output_tokens=(tokens and tokens.completion) or 0,
            tokens_per_second=UNREPORTED if per_second is None else round(per_second, 2),
        ),
        duration_ms=round(request.seconds * 1000),
    )
