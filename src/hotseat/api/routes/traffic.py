"""The traffic feed from which `hotseat record` writes a trace. Each item is a JSON object whose `t` is its type.

First `machine`: which models may run together, and what is known of each. Then, live, `request` with its times on one
clock and the tokens of its prompt, `load` and `stop` with their durations, `save` and `restore` for each conversation,
`slots` as a server reports them, and `missed` where the reader did not keep up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from msgspec.structs import asdict

from hotseat.api.deps import ApiDeps, Deps
from hotseat.api.disconnect import LiveStream, lasting, listening
from hotseat.api.routes.events import EVENTS, HEARTBEAT, HEARTBEAT_S, plain
from hotseat.api.slices import taken
from hotseat.catalog.spec import written
from hotseat.dispatch.journal import Entry, Gap
from hotseat.dispatch.request_trace import Missed, RequestTiming
from hotseat.scheduling.commands import StartUpstream, StopUpstream
from hotseat.scheduling.events import (
    ConversationsRestored,
    ConversationsSaved,
    SlotsLearned,
    UpstreamExited,
    UpstreamReady,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hotseat.catalog.groups import Matrix
    from hotseat.catalog.spec import Footprint
    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import LaunchId

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

A_DAY_S = 86_400.0


@router.get(
    "/traffic",
    summary="Timings of each request when it finishes, and of loads and stops",
    response_class=Response,
    responses=EVENTS,
)
async def traffic(
    deps: Deps,
    seconds: Annotated[float, Query(gt=0, le=A_DAY_S, description="The stream ends after this time.")] = A_DAY_S,
) -> Response:
    return LiveStream(traffic_feed(deps, seconds))


async def traffic_feed(deps: ApiDeps, seconds: float) -> AsyncGenerator[str, None]:
    watch = Stopwatch()
    sources: list[AsyncGenerator[RequestTiming | Missed | Entry | Gap, None]] = [
        lasting(deps.dispatcher.traffic.follow(), seconds),
        lasting(deps.journal.follow(), seconds),
    ]
    async with listening(sources, HEARTBEAT_S) as items:
        yield as_data(await machine(deps.dispatcher))
        async for item in items:
            if item is None:
                yield HEARTBEAT
            for message in watch.messages(item):
                yield as_data(message)


def as_data(message: dict[str, Any]) -> str:
    return f"data: {json.dumps(message)}\n\n"


class Stopwatch:
    """Turns events into trace items; measures loads and stops."""

    def __init__(self) -> None:
        self._since: dict[LaunchId, float] = {}

    def messages(self, item: RequestTiming | Missed | Entry | Gap | None) -> Iterator[dict[str, Any]]:
        match item:
            case RequestTiming():
                yield {"t": "request", **plain(item)}
            case Missed(count=count):
                yield {"t": "missed", "count": count}
            case Entry():
                yield from self._measured(item)
                for command in item.commands:
                    if isinstance(command, StartUpstream | StopUpstream):
                        self._since[command.launch] = item.at

    def _measured(self, entry: Entry) -> Iterator[dict[str, Any]]:
        event = entry.event
        if isinstance(event, SlotsLearned):
            yield {"t": "slots", "model": event.model, "slots": event.total_slots}
        if isinstance(event, ConversationsSaved | ConversationsRestored):
            yield from transfers(event)
        if not isinstance(event, UpstreamReady | UpstreamExited):
            return
        since = self._since.pop(event.launch, None)
        if since is not None:
            what = "load" if isinstance(event, UpstreamReady) else "stop"
            yield {"t": what, "model": event.model, "seconds": round(entry.at - since, 6)}


def transfers(event: ConversationsSaved | ConversationsRestored) -> Iterator[dict[str, Any]]:
    what, done = ("save", event.saved) if isinstance(event, ConversationsSaved) else ("restore", event.restored)
    for each in done:
        yield {"t": what, "model": event.model, "tokens": each.tokens, "seconds": round(each.took_s, 6)}


def figures(footprint: Footprint | None) -> dict[str, int] | None:
    return {str(place): bytes_ for place, bytes_ in footprint.memory.items()} if footprint else None


def matrix(known: Matrix | None) -> dict[str, Any] | None:
    return {"sets": known.sets, "evict_costs": dict(known.evict_costs)} if known else None


async def machine(dispatcher: Dispatcher) -> dict[str, Any]:
    """Which models may run together. Only what the scheduler knows of a model: its command may contain secrets."""
    catalog = dispatcher.catalog
    views = dispatcher.views
    return {
        "t": "machine",
        "patience": catalog.policy.patience,
        "max_queue": catalog.policy.max_queue,
        "max_wait": catalog.policy.max_wait_s,
        "devices": {str(place): bytes_ for place, bytes_ in catalog.budgets.items()},
        "groups": [asdict(group) for group in catalog.groups.groups],
        "matrix": matrix(catalog.groups.matrix),
        "models": await taken(
            {
                "name": spec.name,
                "load_s": seen.load_s,
                "slots": seen.slots,
                "memory": figures(dispatcher.questions.footprint(spec.name)),
                "gpus": written(spec.gpus) if spec.gpus else None,
                "ttl_s": spec.ttl_s,
                "urgency": spec.urgency,
                "pinned": spec.pinned,
                "keeps_conversations": spec.keeps_conversations,
            }
            for seen in views.of_each(views.current())
            if (spec := catalog.models.get(seen.name)) is not None
        ),
    }
