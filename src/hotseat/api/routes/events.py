"""Live feeds: the journal and the output of the model servers."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import PlainTextResponse, Response

from hotseat.api.deps import ApiDeps, Deps, Logs
from hotseat.api.disconnect import LiveStream, listening
from hotseat.api.journal_json import as_sse
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.dispatch.journal import Gap

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from hotseat.dispatch.journal import Journal
    from hotseat.identifiers import ModelName

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

HEARTBEAT_S = 10.0
HEARTBEAT = ": still here\n\n"

EVENTS: Responses = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A feed."}}
LOGS: Responses = {
    200: {
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "text/event-stream")},
        "description": "Lines, or a stream of lines with `follow`.",
    }
}


@router.get("/events", summary="Events and scheduling decisions, live", response_class=Response, responses=EVENTS)
async def events(
    deps: Deps,
    after: Annotated[int | None, Query(ge=0, description="Start after this entry instead of now.")] = None,
    last_event_id: Annotated[int | None, Header(ge=0)] = None,
) -> Response:
    # A reconnecting browser repeats its first query; only the header has its real position.
    return LiveStream(journal_feed(deps.journal, after if last_event_id is None else last_event_id))


@router.get("/logs", summary="Output of the model servers", response_class=Response, responses={**LOGS, **UNKNOWN})
async def logs(
    deps: Deps,
    model: Annotated[str | None, Query(description="One model; default: all models.")] = None,
    lines: Annotated[int, Query(ge=0, le=100_000)] = 100,
    follow: Annotated[bool, Query(description="Follow new lines as server-sent events.")] = False,
) -> Response:
    chosen = chosen_models(deps, model)
    if follow:
        return LiveStream(log_feed(deps.logs, chosen, lines))
    return PlainTextResponse("".join(f"{line}\n" for line in tails(deps.logs, chosen, lines)))


async def journal_feed(journal: Journal, after: int | None) -> AsyncGenerator[str, None]:
    """The journal as server-sent events; reports a gap if entries after `after` are no longer kept."""
    if missed := missed_since(journal, after):
        yield as_sse(missed)
    async with listening([journal.follow(after)], HEARTBEAT_S) as items:
        async for item in items:
            yield HEARTBEAT if item is None else as_sse(item)


def missed_since(journal: Journal, after: int | None) -> Gap | None:
    if after is None:
        return None
    if after > journal.n:  # numbered by a previous run of hotseat
        return Gap(journal.n)
    kept = journal.entries()
    return Gap(kept[0].n - 1) if kept and kept[0].n > after + 1 else None


def chosen_models(deps: ApiDeps, model: str | None) -> Sequence[ModelName]:
    return tuple(deps.logs.models()) if model is None else (deps.dispatcher.catalog.resolve(model).name,)


def tails(logs: Logs, models: Sequence[ModelName], lines: int) -> list[str]:
    return [said(name, line, models) for name in models for line in logs.tail(name, lines)]


async def log_feed(logs: Logs, models: Sequence[ModelName], lines: int) -> AsyncGenerator[str, None]:
    async with listening([named(logs, name, models) for name in models], HEARTBEAT_S) as coming:
        for line in tails(logs, models, lines):
            yield f"data: {line}\n\n"
        async for news in coming:
            yield HEARTBEAT if news is None else f"data: {news}\n\n"


async def named(logs: Logs, model: ModelName, models: Sequence[ModelName]) -> AsyncGenerator[str, None]:
    async with aclosing(logs.follow(model)) as lines:
        async for line in lines:
            yield said(model, line, models)


def said(model: ModelName, line: str, models: Sequence[ModelName]) -> str:
    """Prefixes the model if there are several."""
    return line if len(models) == 1 else f"{model} | {line}"
