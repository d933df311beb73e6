"""The live feed of the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response

from hotseat.api.deps import Deps
from hotseat.api.disconnect import LiveStream, listening
from hotseat.api.journal_json import as_sse
from hotseat.api.routes.management import Responses
from hotseat.dispatch.journal import Gap

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from hotseat.dispatch.journal import Journal

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

HEARTBEAT_S = 10.0
HEARTBEAT = ": still here\n\n"

EVENTS: Responses = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A feed."}}


@router.get("/events", summary="Events and scheduling decisions, live", response_class=Response, responses=EVENTS)
async def events(
    deps: Deps,
    after: Annotated[int | None, Query(ge=0, description="Start after this entry instead of now.")] = None,
    last_event_id: Annotated[int | None, Header(ge=0)] = None,
) -> Response:
    # A reconnecting browser repeats its first query; only the header has its real position.
    return LiveStream(journal_feed(deps.journal, after if last_event_id is None else last_event_id))


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
