"""`hotseat usage`: requests and tokens by day, model or API key, as a table, JSON or CSV."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hotseat.cli.queries import show_json
from hotseat.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.cli.client import Server

COUNTS = {
    "requests": "REQUESTS",
    "unknown": "UNKNOWN",
    "prompt_tokens": "PROMPT TOKENS",
    "cached_tokens": "CACHED",
    "completion_tokens": "COMPLETION TOKENS",
    "estimated_tokens": "ESTIMATED",
}


def usage(server: Server, days: int, by: Sequence[str], form: str) -> None:
    until = datetime.now(UTC).date()
    query = {"since": until - timedelta(days=days - 1), "until": until, "by": by}
    if form == "csv":
        return print(server.text("/hotseat/usage", format=form, **query), end="")
    answer = server.ask("GET", "/hotseat/usage", **query)
    if form == "json":
        return show_json(answer)
    columns = [name for name in ("day", "model", "key") if name in by]
    rows = [row(each, [each[name] for name in columns]) for each in answer["usage"]]
    total = row(answer["total"], ["total", *[" "] * (len(columns) - 1)])
    print(table([*map(str.upper, columns), *COUNTS.values()], [*rows, total]))
    if unknown := answer["total"]["unknown"]:
        requests = "1 request" if unknown == 1 else f"{unknown} requests"
        print(f"\nThe tokens of {requests} are unknown. ESTIMATED is about how many they were.")
    return None


def row(counts: dict[str, Any], places: Sequence[str]) -> tuple[str, ...]:
    return (*places, *(str(counts[name]) for name in COUNTS))
