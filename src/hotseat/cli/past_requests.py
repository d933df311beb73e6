"""`hotseat activity` and `hotseat usage`: finished requests, one per line, or counted by day, model or API key."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hotseat.cli.queries import moment, show_json
from hotseat.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotseat.cli.client import Server

HEAD = ("ENDED", "MODEL", "CLIENT", "REQUEST", "STATUS", "WAITED", "FIRST BYTE", "TOOK", "TOKENS", "TOKENS/S", "ID")
COUNTS = {
    "requests": "REQUESTS",
    "unknown": "UNKNOWN",
    "prompt_tokens": "PROMPT TOKENS",
    "cached_tokens": "CACHED",
    "completion_tokens": "COMPLETION TOKENS",
    "estimated_tokens": "ESTIMATED",
}


def activity(server: Server, model: str | None, seconds: float, limit: int, as_json: bool) -> None:
    query: dict[str, object] = {"since": max(0.0, time.time() - seconds), "limit": limit}
    if model is not None:
        query["model"] = model
    answer = server.ask("GET", "/hotseat/activity", **query)
    if as_json:
        return show_json(answer)
    print(table(HEAD, [request_row(request) for request in answer["requests"]]))
    if not answer["kept_s"]:
        print("\nThese requests are from memory (at most 1000); set activity.keepDays to store them on disk.")
    return None


def request_row(request: dict[str, Any]) -> tuple[str, ...]:
    return (
        moment(request["at"]),
        request["model"],
        request["client"],
        f"{request['method']} {request['path']}",
        str(request["status"]),
        seconds_of(request["waited_s"]),
        seconds_of(request["first_byte_s"]),
        seconds_of(request["seconds"]),
        tokens_of(request),
        "" if request["tokens_per_s"] is None else f"{request['tokens_per_s']:.1f}",
        request["id"],
    )


def seconds_of(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}s"


def tokens_of(request: dict[str, Any]) -> str:
    """`12+80`: tokens of the prompt and of the answer, if known."""
    known = request["prompt_tokens"], request["completion_tokens"]
    return "" if known == (None, None) else "+".join("?" if each is None else str(each) for each in known)


def usage(server: Server, days: int, by: Sequence[str], form: str) -> None:
    until = datetime.now(UTC).date()
    query = {"since": until - timedelta(days=days - 1), "until": until, "by": by}
    if form == "csv":
        return print(server.text("/hotseat/usage", format=form, **query), end="")
    answer = server.ask("GET", "/hotseat/usage", **query)
    if form == "json":
        return show_json(answer)
    columns = [name for name in ("day", "model", "key") if name in by]
    rows = [count_row(each, [each[name] for name in columns]) for each in answer["usage"]]
    total = count_row(answer["total"], ["total", *[" "] * (len(columns) - 1)])
    print(table([*map(str.upper, columns), *COUNTS.values()], [*rows, total]))
    if unknown := answer["total"]["unknown"]:
        requests = "1 request" if unknown == 1 else f"{unknown} requests"
        print(f"\nThe tokens of {requests} are unknown. ESTIMATED is about how many they were.")
    return None


def count_row(counts: dict[str, Any], places: Sequence[str]) -> tuple[str, ...]:
    return (*places, *(str(counts[name]) for name in COUNTS))
