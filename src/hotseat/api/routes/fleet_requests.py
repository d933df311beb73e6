"""The requests in progress on all hosts of a fleet, each once.

A forwarded request is known to two hosts: the one that its client asked, and the one that serves it. Both have the
same id of it, but a client may send one id several times.
"""

from __future__ import annotations

from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import APIRouter, Request
from msgspec import Struct
from msgspec.json import Decoder
from pydantic import Field

from hotseat.api.deps import Deps
from hotseat.api.disconnect import unless_gone
from hotseat.api.routes.fleet import ALONE, fleet_admin_of
from hotseat.api.routes.requests import in_progress
from hotseat.api.schema_base import Schema
from hotseat.api.slices import Listing, page, rows, slices, taken
from hotseat.errors import HostUnresponsive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.api.routes.requests import RequestInProgress

    At = tuple[str, "Reported | RequestInProgress"]
    """A request, and the host that reports it."""
    Copies = dict[tuple[str, str], list[At]]
    """Forwarded requests at the hosts that serve them, by the host that was asked and the id."""

router = APIRouter(prefix="/hotseat/fleet", tags=["fleet"])

MOST_REQUESTS, LEAST_REQUESTS = 100_000, 100
"""Kept of all hosts together, and of each."""
WITHOUT_FINISHED = f"/hotseat/requests?after={2**53}"
"""No host has numbered that many finished requests."""
OF_EACH_HOST = "The oldest first; of each other host at most 100,000 divided by their number, but 100 in any case."


class FleetRequest(Schema):
    """A request in progress, wherever it is served. One that was forwarded is listed once."""

    host: Annotated[str, Field(description="The host that serves it, or where it waits.")]
    asked: Annotated[str, Field(description="The host that its client asked.")]
    ticket: Annotated[
        int | None, Field(description="Its number at the host that was asked, to cancel it there; null: unknown.")
    ]
    id: str
    model: str
    client: str
    method: str
    path: str
    state: Annotated[Literal["waiting", "sent", "answering"], Field(description="At the host that serves it.")]
    waited_s: float
    first_byte_s: float | None
    seconds: Annotated[float, Field(description="Since its arrival.")]


class FleetRequests(Schema):
    in_progress: Annotated[list[FleetRequest], Field(description=OF_EACH_HOST)]
    silent: Annotated[
        list[str],
        Field(
            description="Hosts that did not answer in time, or with more than 2 MiB; what they alone know is missing."
        ),
    ]
    problems: Annotated[dict[str, str], Field(description="Why, of each of these hosts.")]


@router.get(
    "/requests",
    summary="Requests in progress on all hosts of the fleet",
    response_model=FleetRequests,
    responses=ALONE,
)
async def fleet_requests(request: Request, deps: Deps) -> Listing:
    fleet_admin = fleet_admin_of(deps)
    others = fleet_admin.others
    names = others.names()
    reports = await unless_gone(request.receive, others.read_all(names, WITHOUT_FINISHED, reader(len(names))))
    here = await taken(in_progress(each) for each in deps.in_progress())
    known = {str(host): report for host, report in reports.items() if not isinstance(report, HostUnresponsive)}
    problems = {str(host): str(report) for host, report in reports.items() if isinstance(report, HostUnresponsive)}
    found = await each_once({fleet_admin.name: here, **known})
    return Listing(page(FleetRequests(in_progress=[], silent=[*problems], problems=problems), in_progress=rows(found)))


class Reported(Struct, frozen=True, gc=False):
    """A `RequestInProgress` of another host, in a tenth of its memory."""

    ticket: int
    id: str
    model: str
    client: str
    method: str
    path: str
    state: Literal["waiting", "sent", "answering"]
    waited_s: float
    first_byte_s: float | None
    seconds: float
    host: str | None
    from_host: str | None = None


class Report(Struct):
    in_progress: list[Reported]


REPORT = Decoder(Report)


def reader(hosts: int) -> Callable[[bytes], list[Reported]]:
    """Reads the answer of one of so many hosts."""
    return partial(reported, most=max(LEAST_REQUESTS, MOST_REQUESTS // max(hosts, 1)))


def reported(answer: bytes, most: int) -> list[Reported]:
    """ValueError if this version does not understand it."""
    try:
        return REPORT.decode(answer).in_progress[:most]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


async def each_once(reports: Mapping[str, Sequence[Reported | RequestInProgress]]) -> Iterator[FleetRequest]:
    """All requests that the hosts report, the oldest first; most of the work is done when one is taken."""
    forwarded, others, copies = await _sorted_out(reports)
    pairs: list[tuple[At, At]] = []
    # Those that are known to be forwarded come first: each finds its own copy.
    for asked in (forwarded, others):
        async for some in slices(asked):
            pairs += [(at, _take(copies, at) or at) for at in some]
    async for lists in slices(copies.values()):
        pairs += [(copy, copy) for left in lists for copy in left]
    runs = [sorted(some, key=_youth) async for some in slices(pairs, 1000)]
    return (_shown(*pair) for pair in merge(*runs, key=_youth))


async def _sorted_out(
    reports: Mapping[str, Sequence[Reported | RequestInProgress]],
) -> tuple[list[At], list[At], Copies]:
    """Those that were asked and forwarded, all others that were asked, and what other hosts have forwarded."""
    forwarded: list[At] = []
    others: list[At] = []
    copies: Copies = {}
    async for some in slices((host, each) for host, requests in reports.items() for each in requests):
        for host, each in some:
            if each.from_host is not None:
                copies.setdefault((each.from_host, each.id), []).append((host, each))
            else:
                (others if each.host is None else forwarded).append((host, each))
    return forwarded, others, copies


def _youth(pair: tuple[At, At]) -> float:
    (_, request), _ = pair
    return -request.seconds


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
