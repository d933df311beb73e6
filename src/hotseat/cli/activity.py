"""`hotseat activity`: finished requests, one per line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hotseat.cli.queries import moment, show_json
from hotseat.cli.tables import table

if TYPE_CHECKING:
    from hotseat.cli.client import Server

HEAD = ("ENDED", "MODEL", "CLIENT", "REQUEST", "STATUS", "WAITED", "FIRST BYTE", "TOOK", "TOKENS", "TOKENS/S", "ID")


def activity(server: Server, model: str | None, seconds: float, limit: int, as_json: bool) -> None:
    query: dict[str, object] = {"since": max(0.0, time.time() - seconds), "limit": limit}
    if model is not None:
        query["model"] = model
    answer = server.ask("GET", "/hotseat/activity", **query)
    if as_json:
        return show_json(answer)
    print(table(HEAD, [row(request) for request in answer["requests"]]))
    if not answer["kept_s"]:
        print("\nThese requests are from memory (at most 1000); set activity.keepDays to store them on disk.")
    return None


def row(request: dict[str, Any]) -> tuple[str, ...]:
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
