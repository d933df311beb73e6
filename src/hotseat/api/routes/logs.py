"""The output of the model servers and hotseat's own log, in the order of time."""

from __future__ import annotations

from contextlib import aclosing
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from hotseat.api.deps import ApiDeps, Deps, LogSource
from hotseat.api.disconnect import LiveStream, listening
from hotseat.api.log_text import as_json, as_text
from hotseat.api.routes.events import HEARTBEAT, HEARTBEAT_S
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.slices import Listing, joined, taken
from hotseat.errors import ClientError
from hotseat.identifiers import LogLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

    from hotseat.dispatch.dispatcher import Dispatcher
    from hotseat.identifiers import ModelName
    from hotseat.model_servers.output import Output, Outputs

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

JSON_LINES = "application/x-ndjson"
LOGS: Responses = {
    200: {
        "content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", JSON_LINES, "text/event-stream")},
        "description": "Lines, oldest first. As JSON, and in each event of a feed, a line is an object with `at` "
        "(seconds since 1970), `model` (null: hotseat itself), `level` (null: not known) and `text`.",
    }
}


@router.get(
    "/logs",
    summary="Output of the model servers and hotseat's own log",
    response_class=Response,
    responses={**LOGS, **UNKNOWN},
)
async def logs(
    deps: Deps,
    model: Annotated[str | None, Query(description="Only the output of this model.")] = None,
    own: Annotated[bool, Query(description="Only hotseat's own log.")] = False,
    lines: Annotated[int, Query(ge=0, le=100_000, description="The number of most recent lines.")] = 100,
    follow: Annotated[bool, Query(description="Follow new lines as server-sent events, in JSON.")] = False,
    in_json: Annotated[bool, Query(alias="json", description="One JSON object per line instead of text.")] = False,
) -> Response:
    sources = chosen(deps, model, own)
    if follow:
        return LiveStream(log_feed(sources, lines))
    return page(await newest(sources, lines), in_json=in_json)


def chosen(deps: ApiDeps, model: str | None, own: bool) -> Sequence[LogSource]:
    if model is None:
        return [deps.logs.own] if own else deps.logs.all()
    if own:
        raise ClientError("`own` selects hotseat's own log and `model` a model server's output; send one of them")
    return [deps.logs.of_model(deps.dispatcher.catalog.resolve(model).name)]


def page(lines: Iterable[LogLine], *, in_json: bool) -> Response:
    form, kind = (as_json, JSON_LINES) if in_json else (as_text, "text/plain")
    return Listing((f"{form(line)}\n" for line in lines), kind)


async def newest(sources: Sequence[LogSource], lines: int) -> list[LogLine]:
    """The last lines of all sources together, in the order of time; each source keeps its own order."""
    return await merged((source.newest(lines) for source in sources), lines)


async def merged(newest_first: Iterable[Iterator[LogLine]], lines: int) -> list[LogLine]:
    """The last of all these lines. Each is made when it is taken, the first of each source before they are merged."""
    begun = await taken(chain([*islice(each, 1)], each) for each in newest_first)
    return (await taken(islice(merge(*begun, key=attrgetter("at"), reverse=True), lines)))[::-1]


async def log_feed(sources: Sequence[LogSource], lines: int) -> AsyncGenerator[str, None]:
    async with listening([source.follow() for source in sources], HEARTBEAT_S) as coming:
        async for part in joined(map(event, await newest(sources, lines))):
            yield part
        async for news in coming:
            yield HEARTBEAT if news is None else event(news)


def event(line: LogLine) -> str:
    return f"data: {as_json(line)}\n\n"


class LogSources:
    def __init__(self, dispatcher: Dispatcher, outputs: Outputs, own: LogSource) -> None:
        self._dispatcher = dispatcher
        self._outputs = outputs
        self.own = own

    def of_model(self, model: ModelName) -> LogSource:
        return ModelOutput(model, self._outputs.of(model))

    def all(self) -> Sequence[LogSource]:
        return [self.own, *map(self.of_model, self._dispatcher.catalog.models)]


class ModelOutput:
    def __init__(self, model: ModelName, output: Output) -> None:
        self._model = model
        self._output = output

    def newest(self, lines: int) -> Iterator[LogLine]:
        return (LogLine(line.at, line.text, self._model) for line in self._output.newest(lines))

    async def follow(self) -> AsyncGenerator[LogLine, None]:
        async with aclosing(self._output.follow()) as lines:
            async for line in lines:
                yield LogLine(line.at, line.text, self._model)
