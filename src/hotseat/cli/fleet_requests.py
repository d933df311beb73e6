"""`hotseat fleet requests`: the requests in progress on all hosts, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotseat.cli.queries import show_json
from hotseat.cli.tables import duration, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.cli.client import Server

REQUESTS = ("HOST", "ASKED", "TICKET", "MODEL", "CLIENT", "STATE", "WAITED", "SINCE", "REQUEST")


def requests(server: Server, as_json: bool) -> None:
    found = server.ask("GET", "/hotseat/fleet/requests")
    if as_json:
        return show_json(found)
    print(table(REQUESTS, [row(request) for request in found["in_progress"]]))
    if found["silent"]:
        print(f"\n{'; '.join(found['problems'].values())}: requests that only these hosts know are missing")
    return None


def row(request: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        request["host"],
        request["asked"],
        str(request["ticket"] or ""),
        request["model"],
        request["client"],
        request["state"],
        duration(request["waited_s"]),
        duration(request["seconds"]),
        f"{request['method']} {request['path']}",
    )
