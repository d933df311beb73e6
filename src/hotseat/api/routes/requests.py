"""Requests in progress, recent requests, and how an operator ends one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from hotseat.api.deps import ApiDeps, Caller, Deps
from hotseat.api.routes.management import UNKNOWN, Responses
from hotseat.api.schema_base import Failure, Result, Schema
from hotseat.api.slices import Listing, page, rows
from hotseat.errors import Forbidden
from hotseat.identifiers import TicketId

if TYPE_CHECKING:
    from hotseat.activity.recent import Finished, InProgress
    from hotseat.identifiers import ModelName

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

GONE: Responses = {404: {"model": Failure, "description": "No such request is in progress."}}
REQUEST_ID = "The client's `X-Request-Id`, or a generated one; also in the response."


class RequestInProgress(Schema):
    ticket: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    model: str
    client: str
    method: str
    path: str
    state: Annotated[Literal["waiting", "sent", "answering"], Field(description="State of the request.")]
    waited_s: float
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: no response yet.")]
    seconds: Annotated[float, Field(description="Since its arrival.")]
    host: Annotated[
        str | None, Field(description="The host of the fleet that it was forwarded to; null: it is served here.")
    ]
    from_host: Annotated[
        str | None, Field(description="The host of the fleet that forwarded it; null: a client sent it here.")
    ] = None


class FinishedRequest(Schema):
    n: int
    id: Annotated[str, Field(description=REQUEST_ID)]
    at: Annotated[float, Field(description="When it ended; Unix time.")]
    model: str
    client: str
    method: str
    path: str
    status: Annotated[int, Field(description="499: the client disconnected. 0: no response was started.")]
    waited_s: Annotated[float, Field(description="Time in the queue: loads, swaps and slots.")]
    why: Annotated[str, Field(description="What it waited for; empty: it was served at once, or ended while waiting.")]
    first_byte_s: Annotated[float | None, Field(description="From its arrival; null: no response.")]
    seconds: Annotated[float, Field(description="From its arrival to its last byte.")]
    prompt_tokens: Annotated[int | None, Field(description="As reported in the response; null: not reported.")]
    cached_tokens: Annotated[
        int | None,
        Field(description="How many of the prompt's tokens the server had in its cache; null: not reported."),
    ]
    completion_tokens: Annotated[int | None, Field(description="As reported in the response; null: not reported.")]
    tokens_per_s: Annotated[
        float | None,
        Field(description="Generated tokens per second: the server's figure, else over its processing time."),
    ]


class History(Schema):
    kept_s: Annotated[float, Field(description="Days for which requests are stored on disk; 0: these are from memory.")]
    requests: Annotated[list[FinishedRequest], Field(description="Oldest first.")]


class Requests(Schema):
    at: Annotated[float, Field(description="Unix time of this response, by hotseat's own clock.")]
    in_progress: list[RequestInProgress]
    finished: Annotated[list[FinishedRequest], Field(description="The last 1000, oldest first.")]


@router.get("/requests", summary="Requests in progress, and the most recent finished ones", response_model=Requests)
async def requests(
    deps: Deps,
    after: Annotated[int, Query(ge=0, description="Only requests that finished after this number.")] = 0,
) -> Listing:
    return Listing(
        page(
            Requests(at=time.time(), in_progress=[], finished=[]),
            in_progress=rows(map(in_progress, deps.in_progress())),
            finished=rows(map(finished, deps.activity.recent(after))),
        )
    )


@router.get(
    "/activity",
    summary="Finished requests, as far back as they are stored",
    response_model=History,
    responses=UNKNOWN,
)
async def activity(
    deps: Deps,
    model: Annotated[str | None, Query(description="One model; default: all models.")] = None,
    since: Annotated[float, Query(ge=0, description="Only requests that finished after this time; Unix time.")] = 0,
    limit: Annotated[int, Query(ge=1, le=100_000, description="Maximum number of requests, newest first.")] = 1000,
) -> Listing:
    ended = await deps.history(since, model and str(deps.dispatcher.catalog.resolve(model).name), limit)
    history = History(kept_s=deps.settings().activity_keep_s, requests=[])
    return Listing(page(history, requests=rows(map(finished, ended))))


@router.delete("/requests/{ticket}", summary="Cancel a request that is waiting or in flight", responses=GONE)
async def cancel_request(ticket: int, deps: Deps, caller: Caller) -> Result:
    if caller is not None and caller.models and not any(map(caller.may_use, models_of(ticket, deps))):
        raise Forbidden(f"no request with the ticket {ticket} is for a model that this API key may use")
    deps.dispatcher.operator.cancel(TicketId(ticket))
    return Result(message=f"ticket {ticket} was cancelled")


def models_of(ticket: int, deps: ApiDeps) -> list[ModelName]:
    """The model of a ticket, waiting or in flight; empty if unknown."""
    if (waited_for := deps.dispatcher.questions.waits_for(TicketId(ticket))) is not None:
        return [waited_for]
    return [each.model for each in deps.in_progress() if each.ticket == ticket]


def in_progress(request: InProgress) -> RequestInProgress:
    return RequestInProgress(
        ticket=request.ticket,
        id=request.id.decode(),
        model=request.model,
        client=request.client,
        method=request.method.decode("latin-1"),
        path=path_of(request.target),
        state=state_of(request),
        waited_s=round(request.waited_s, 4),
        first_byte_s=rounded(request.first_byte_s),
        seconds=round(request.seconds, 4),
        host=request.host,
        from_host=request.from_host,
    )


def finished(request: Finished) -> FinishedRequest:
    return FinishedRequest(
        n=request.n,
        id=request.id.decode(),
        at=request.at,
        model=request.model,
        client=request.client,
        method=request.method.decode("latin-1"),
        path=path_of(request.target),
        status=request.status,
        waited_s=round(request.waited_s, 4),
        why=request.why,
        first_byte_s=rounded(request.first_byte_s),
        seconds=round(request.seconds, 4),
        **tokens_of(request),
    )


def tokens_of(request: Finished) -> dict[str, Any]:
    tokens, per_s = request.tokens, request.tokens_per_s
    return {
        "prompt_tokens": tokens and tokens.prompt,
        "cached_tokens": tokens and tokens.cached,
        "completion_tokens": tokens and tokens.completion,
        "tokens_per_s": per_s and round(per_s, 2),
    }


def state_of(request: InProgress) -> Literal["waiting", "sent", "answering"]:
    if request.is_waiting:
        return "waiting"
    return "sent" if request.first_byte_s is None else "answering"


def path_of(target: bytes) -> str:
    """Without the query, which may contain keys."""
    return target.partition(b"?")[0].decode("latin-1")


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)
