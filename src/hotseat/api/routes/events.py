"""The journal as JSON, and its live feed. It omits launch commands, hooks and catalogs, which may contain secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from msgspec import Struct, structs
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.disconnect import LiveStream, listening
from hotseat.api.routes.management import Responses
from hotseat.api.schema_base import Schema
from hotseat.catalog.catalog import Catalog
from hotseat.catalog.named_models import FleetModel
from hotseat.catalog.sleeping import SleepLevel
from hotseat.catalog.spec import ModelSpec
from hotseat.dispatch.journal import Gap
from hotseat.errors import HotseatError
from hotseat.identifiers import Address, Place, Upstream
from hotseat.scheduling.commands import ReportFailure, StartUpstream, StopUpstream, WakeAt

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from hotseat.dispatch.journal import Entry, Journal
    from hotseat.identifiers import ModelName
    from hotseat.scheduling.commands import Command
    from hotseat.scheduling.events import Event

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

HEARTBEAT_S = 10.0
HEARTBEAT = ": still here\n\n"
EVENTS: Responses = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A feed."}}


class Cause(Schema):
    at: Annotated[float, Field(description="Unix time.")]
    reason: str


class JournalEntry(Schema):
    """An event and the commands it caused."""

    n: int
    at: Annotated[float, Field(description="Unix time.")]
    event: dict[str, Any]
    commands: list[dict[str, Any]]


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


def as_sse(item: Entry | Gap) -> str:
    """One server-sent event; clients send its id back as `Last-Event-ID`."""
    if isinstance(item, Gap):
        return sse("gap", json.dumps({"n": item.n}), item.n)
    return sse(type(item.event).__name__, entry_json(item).model_dump_json(), item.n)


def sse(event: str, text: str, number: int) -> str:
    return f"id: {number}\nevent: {event}\ndata: {text}\n\n"


def entry_json(entry: Entry) -> JournalEntry:
    # WakeAt concerns only the scheduler and the dispatcher, on a clock that nobody else reads.
    commands = [with_type(command) for command in entry.commands if not isinstance(command, WakeAt)]
    return JournalEntry(n=entry.n, at=entry.at, event=with_type(entry.event), commands=commands)


def with_type(thing: Event | Command) -> dict[str, Any]:
    return {"type": type(thing).__name__, **plain(thing)}


def plain(thing: Any) -> Any:
    """An event, a command or a part of one as JSON values. Typed Any because it walks through all of them."""
    match thing:
        case Catalog():
            return list(thing.models)
        case HotseatError():
            return {"code": thing.code, "message": thing.message}
        case Address() | Place():
            return str(thing)
        case Upstream():
            return {"address": str(thing.address), "pid": thing.pid, "listener": thing.listener}
        case SleepLevel() | FleetModel():
            return thing.name
        case tuple() | frozenset():
            return [plain(each) for each in thing]
        case Mapping():
            return {plain(key): plain(value) for key, value in thing.items()}
    if (values := fields_of(thing)) is None:
        return thing
    return {name: plain(value) for name, value in values.items() if not isinstance(value, ModelSpec)}


def fields_of(thing: Any) -> dict[str, Any] | None:
    """Events and commands are structs, and some of their parts are dataclasses; None: it is neither."""
    if isinstance(thing, Struct):
        return structs.asdict(thing)
    return {field.name: getattr(thing, field.name) for field in fields(thing)} if is_dataclass(thing) else None


def about(model: ModelName, entries: Sequence[Entry]) -> list[Entry]:
    """The entries whose event or commands name the model."""
    return [
        entry
        for entry in entries
        if any(getattr(thing, "model", None) == model for thing in (entry.event, *entry.commands))
    ]


def last_start(model: ModelName, entries: Sequence[Entry]) -> Cause | None:
    for entry, command in _latest_first(entries):
        if isinstance(command, StartUpstream) and command.model == model:
            return Cause(at=entry.at, reason=command.reason)
    return None


def last_stop(model: ModelName, entries: Sequence[Entry]) -> Cause | None:
    """A crash is one too."""
    for entry, command in _latest_first(entries):
        if isinstance(command, StopUpstream) and command.model == model:
            return Cause(at=entry.at, reason=command.reason)
        if isinstance(command, ReportFailure) and command.model == model and command.is_crash:
            return Cause(at=entry.at, reason=command.error)
    return None


def _latest_first(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Command]]:
    return ((entry, command) for entry in reversed(entries) for command in entry.commands)
