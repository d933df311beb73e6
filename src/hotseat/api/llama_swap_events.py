"""llama-swap's feed: each event has a `type` and, as `data`, a JSON text.

First the log lines and the models; then, live, log lines (`logData`), all models whenever one changes (`modelStatus`),
finished requests (`metrics`; `activity` is the number of the last one), and the number of requests in progress
(`inflight`).
"""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from hotseat.api.disconnect import listening
from hotseat.api.llama_swap_models import swap_activity, swap_models, swap_states
from hotseat.api.log_text import as_text
from hotseat.api.routes.events import HEARTBEAT, HEARTBEAT_S
from hotseat.api.routes.logs import newest
from hotseat.api.slices import joined, rows, taken
from hotseat.dispatch.journal import Entry, Gap
from hotseat.identifiers import LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from hotseat.api.deps import ApiDeps
    from hotseat.api.llama_swap_schemas import SwapState
    from hotseat.catalog.catalog import Catalog
    from hotseat.identifiers import ModelName

MOST_LINES = 1000
"""Of the past."""
EVERY_S = 1.0
"""Requests that end are not in the journal, so they are looked for."""


class _Tick(Enum):
    TICK = "look for requests that ended"


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
