"""Response schemas of the usage."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field

from hotseat.api.schema_base import Schema


class UsageSum(Schema):
    requests: Annotated[int, Field(description="Requests that a model server got and that compute something.")]
    unknown: Annotated[int, Field(description="Requests among them whose tokens the model server did not report.")]
    prompt_tokens: Annotated[int, Field(description="With the cached ones.")]
    cached_tokens: int
    completion_tokens: int
    estimated_tokens: Annotated[int, Field(description="Further tokens, of the unknown requests.")]


class UsageEntry(UsageSum):
    day: Annotated[date | None, Field(description="In UTC; null: all of them.")]
    model: Annotated[str | None, Field(description="null: all of them.")]
    key: Annotated[str | None, Field(description="Name of the API key; empty: none was needed; null: all of them.")]


class Usage(Schema):
    since: date
    until: Annotated[date, Field(description="Included.")]
    usage: list[UsageEntry]
    total: UsageSum
