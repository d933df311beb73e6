"""Schemas of API keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from hotseat.api.schema_base import Result, Schema


class Key(Schema):
    name: Annotated[str, Field(description="Configured name, or the first digits of the digest.")]
    role: Literal["inference", "operate", "admin"]
    source: Annotated[
        Literal["configuration", "created"], Field(description="In `apiKeys`, or created with `hotseat keys`.")
    ]
    models: Annotated[list[str], Field(description="Models the key may use; empty: all.")]
    requests_limit: Annotated[str | None, Field(description="As configured, such as 100/min; null: no limit.")]
    tokens_limit: Annotated[str | None, Field(description="As configured, such as 2M/day; null: no limit.")]
    concurrency_limit: Annotated[int | None, Field(description="null: no limit.")]
    priority: Literal["interactive", "batch"]
    requests: Annotated[int, Field(description="Requests to models since the start of hotseat.")]
    refused: Annotated[int, Field(description="Requests refused because of its limits.")]
    in_flight: Annotated[int, Field(description="Requests waiting or being served.")]
    device_seconds: Annotated[float, Field(description="Device time used; concurrent requests share the time.")]


class KeyList(Schema):
    keys: list[Key]


class NewKey(Schema):
    # Of a request's body: pydantic warns if the schema of a body is built later.
    model_config = ConfigDict(strict=True, extra="forbid", defer_build=False)

    role: Literal["inference", "operate", "admin"] = "inference"
    models: Annotated[
        tuple[str, ...],
        Field(strict=False, max_length=1000, fail_fast=True, description="Models the key may use; empty: all."),
    ] = ()
    requests: Annotated[str | None, Field(description="Such as 100/min; null: no limit.")] = None
    tokens: Annotated[str | None, Field(description="Such as 2M/day; null: no limit.")] = None
    concurrency_limit: Annotated[int | None, Field(ge=1, description="null: no limit.")] = None
    priority: Literal["interactive", "batch"] = "interactive"
    proof: Annotated[
        str, Field(description="For the first key only: what `hotseat keys create` wrote to the state directory.")
    ] = ""


class KeySecret(Result):
    name: str
    secret: Annotated[str, Field(description="What clients send; it cannot be shown again.")]
