"""Response schemas of requests in progress and of finished ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hotseat.api.schema_base import Schema

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
