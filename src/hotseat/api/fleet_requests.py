"""The requests in progress on all hosts of a fleet, each once.

A forwarded request is known to two hosts: the one that its client asked, and the one that serves it. Both have the
same id of it, but a client may send one id several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.api.fleet_schemas import FleetRequest
from hotseat.api.slices import taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotseat.api.request_schemas import RequestInProgress

    At = tuple[str, RequestInProgress]
    """A request, and the host that reports it."""
    Copies = dict[tuple[str, str], list[At]]
    """Forwarded requests at the hosts that serve them, by the host that was asked and the id."""


async def each_once(reports: Mapping[str, Sequence[RequestInProgress]]) -> list[FleetRequest]:
    """All requests that the hosts report, the oldest first."""
    clients = ((host, each) for host, requests in reports.items() for each in requests if each.from_host is None)
    asked = await taken(clients)
    copies = _copies(reports)
    # Those that are known to be forwarded come first: each finds its own copy.
    asked.sort(key=lambda at: at[1].host is None)
    found = await taken(_shown(at, _take(copies, at) or at) for at in asked)
    found += await taken(_shown(copy, copy) for left in copies.values() for copy in left)
    return sorted(found, key=lambda request: -request.seconds)


def _copies(reports: Mapping[str, Sequence[RequestInProgress]]) -> Copies:
    copies: Copies = {}
    for host, requests in reports.items():
        for each in requests:
            if each.from_host is not None:
                copies.setdefault((each.from_host, each.id), []).append((host, each))
    return copies


def _take(copies: Copies, at: At) -> At | None:
    """The copy of a request. Its host may have reported before the request was forwarded."""
    asked, request = at
    candidates = copies.get((asked, request.id), [])
    may_be_forwarded = request.host is None and request.state == "waiting"
    for n, (host, _) in enumerate(candidates):
        if request.host == host or may_be_forwarded:
            return candidates.pop(n)
    return None


def _shown(asked: At, served: At) -> FleetRequest:
    """Client and age as at the host that was asked, state and wait as at the host that serves it."""
    (asked_host, request), (serving_host, there) = asked, served
    return FleetRequest(
        host=request.host or serving_host,
        asked=request.from_host or asked_host,
        ticket=None if request.from_host else request.ticket,
        id=request.id,
        model=request.model,
        client=request.client,
        method=request.method,
        path=request.path,
        state=there.state,
        waited_s=there.waited_s,
        first_byte_s=request.first_byte_s,
        seconds=request.seconds,
    )
