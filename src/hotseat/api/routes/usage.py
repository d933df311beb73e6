"""Requests and tokens by day, model and API key, as JSON or CSV."""

from __future__ import annotations

import asyncio
import csv
import io
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query

from hotseat.activity.usage_store import FIRST_DAY, By, Used, day_of
from hotseat.api.deps import Deps
from hotseat.api.slices import Listing, page, rows
from hotseat.api.usage_schemas import Usage, UsageEntry, UsageSum
from hotseat.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotseat.activity.usage_store import UsageRow

router = APIRouter(prefix="/hotseat", tags=["hotseat"])

USUAL_DAYS = 30
MOST_ROWS = 100_000
CSV = "text/csv"
COUNTS = tuple(UsageSum.model_fields)
CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {CSV: {}}}}


@router.get("/usage", summary="Requests and tokens by day, model and API key", response_model=Usage, responses=CONTENT)
async def usage(
    deps: Deps,
    since: Annotated[date | None, Query(description=f"First day, UTC; default: {USUAL_DAYS} days in all.")] = None,
    until: Annotated[date | None, Query(ge=FIRST_DAY, description="Last day, UTC; default: today.")] = None,
    by: Annotated[list[By], Query(description="What each row is for; repeatable.")] = [By.MODEL, By.KEY],  # noqa: B006
    form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
) -> Listing:
    until = until or day_of(time.time())
    since = since or until - timedelta(days=USUAL_DAYS - 1)
    found = await deps.usage(since, until, by, MOST_ROWS + 1)
    if len(found) > MOST_ROWS:
        raise ClientError(f"these are more than {MOST_ROWS} rows; ask for fewer days or fewer columns")
    if form == "csv":
        return Listing(as_csv(found, by), CSV)
    total = await asyncio.to_thread(total_of, found)
    return Listing(page(Usage(since=since, until=until, usage=[], total=total), usage=rows(map(entry, found))))


def as_csv(found: Iterable[UsageRow], by: Sequence[By]) -> Iterator[str]:
    """Lines with columns for what it is by, then the counts."""
    columns = [each.value for each in By if each in by]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, *COUNTS])
    for row in found:
        places, counts = row._asdict(), counts_of(row.used)
        writer.writerow([*(places[column] for column in columns), *(counts[name] for name in COUNTS)])
        yield text.getvalue()
        text.seek(text.truncate(0))
    yield text.getvalue()  # the first line, if it is the only one


def entry(row: UsageRow) -> UsageEntry:
    day = None if row.day is None else date.fromisoformat(row.day)
    return UsageEntry(day=day, model=row.model, key=row.key, **counts_of(row.used))


def total_of(found: Iterable[UsageRow]) -> UsageSum:
    total = Used()
    for row in found:
        total.add(row.used)
    return UsageSum(**counts_of(total))


def counts_of(used: Used) -> dict[str, int]:
    return {
        "requests": used.requests,
        "unknown": used.unknown,
        "prompt_tokens": used.prompt,
        "cached_tokens": used.cached,
        "completion_tokens": used.completion,
        "estimated_tokens": used.estimated,
    }
