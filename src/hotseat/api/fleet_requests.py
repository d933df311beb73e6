"""The requests in progress on all hosts of a fleet, each once.

A forwarded request is known to two hosts: the one that its client asked, and the one that serves it. Both have the
same id of it, but a client may send one id several times.
"""

from __future__ import annotations

from functools import partial
from heapq import merge
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.json import Decoder

from hotseat.api.fleet_schemas import FleetRequest
from hotseat.api.slices import slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hotseat.api.routes.requests import RequestInProgress

    At = tuple[str, "Reported | RequestInProgress"]
    """A request, and the host that reports it."""
    Copies = dict[tuple[str, str], list[At]]
    """Forwarded requests at the hosts that serve them, by the host that was asked and the id."""

MOST_REQUESTS, LEAST_REQUESTS = 100_000, 100
"""Kept of all hosts together, and of each."""


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
