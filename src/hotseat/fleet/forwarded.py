"""Requests that this host has forwarded: one whose path stops answering ends, instead of waiting for ever.

The kernel of a stopped host, or a proxy before it, still accepts and acknowledges data, so the connection does not show
it. Neither does NATS: a host may renew its lease there while nothing passes between the two. So a host that has sent
nothing for a request for a while is asked over HTTP, at the address that requests use. One host after the other is also
asked without requests, so that a broken path, a certificate that ends or a wrong clock is known before they come.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from hotseat.fleet.member import PathState
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Address, HostName, Seconds

    PathTo = Callable[[Address], Awaitable[PathState]]

ROUND_S: Seconds = 3.0
SILENT = 3
"""Questions without answer, one after the other, before a host counts as silent."""


class Forwarded(Protocol):
    def last_received(self) -> object:
        """The last data from the host; None before that. The same object means no new data."""
        ...

    def host_is_silent(self) -> None:
        """End the request: whether it was executed is unknown, so it is not sent to another host."""
        ...


class Received(NamedTuple):
    last: object
    quiet_rounds: int = 0
    """In which nothing else came."""


@dataclass(slots=True)
class AtHost:
    address: Address
    requests: dict[Forwarded, Received] = field(default_factory=dict)
    unanswered: int = 0
    """Questions, one after the other."""

    def is_quiet(self) -> bool:
        """Called once a round: has a request received nothing since the last one?"""
        for request, known in self.requests.items():
            last = request.last_received()
            self.requests[request] = Received(last, known.quiet_rounds + 1 if last is known.last else 0)
        return any(received.quiet_rounds for received in self.requests.values())


class ForwardedRequests:
    def __init__(self, roster: Roster, path_to: PathTo, suspect: Callable[[HostName, str], None]) -> None:
        self._roster, self._path_to, self._suspect = roster, path_to, suspect
        self._hosts: dict[HostName, AtHost] = {}
        """Those with requests in progress, and those that do not answer."""
        self._to_ask: list[HostName] = []
        """Those whose turn comes before any host is asked twice."""

    def sent(self, host: HostName, address: Address, request: Forwarded) -> None:
        there = self._hosts.setdefault(host, AtHost(address))
        there.address = address
        there.requests[request] = Received(request)  # data is never this object, so its first round is not quiet

    def over(self, host: HostName, request: Forwarded) -> None:
        if there := self._hosts.get(host):
            there.requests.pop(request, None)
            self._drop_unused(host, there)

    def _drop_unused(self, host: HostName, there: AtHost) -> None:
        """A host that does not answer is asked until it does, or has left: else clients would have to try it."""
        is_watched = there.unanswered and self._is_at(host, there.address)
        if not there.requests and not is_watched and self._hosts.get(host) is there:
            del self._hosts[host]

    async def keep_checking(self) -> None:
        await forever(self._check_quiet, "check hosts with forwarded requests", ROUND_S)

    async def _check_quiet(self) -> None:
        asked = {host: there for host, there in self._hosts.items() if there.is_quiet() or there.unanswered}
        asked.update(self._next_in_turn())
        await asyncio.gather(*(self._check(host, there) for host, there in asked.items()))

    def _next_in_turn(self) -> Iterator[tuple[HostName, AtHost]]:
        self._to_ask = self._to_ask or sorted(self._roster.hosts.names() - {self._roster.me}, reverse=True)
        if self._to_ask and (member := self._roster.hosts.get(self._to_ask.pop())):
            there = self._hosts.setdefault(member.name, AtHost(member.address))
            there.address = member.address
            yield member.name, there

    async def _check(self, host: HostName, there: AtHost) -> None:
        asked = there.address
        path = await self._path_to(asked)
        is_there = self._is_at(host, asked)  # else it has come back elsewhere meanwhile
        if path.problem:
            there.unanswered += 1
            if is_there:
                self._suspect(host, f"it does not answer /health: {path.problem}")
            if there.unanswered >= SILENT:
                self._end_quiet(there)
        else:
            if is_there:
                self._roster.note_path(host, path)
            if is_there and there.unanswered:
                self._roster.answered(host)
            there.unanswered = 0
        self._drop_unused(host, there)

    def _is_at(self, host: HostName, address: Address) -> bool:
        member = self._roster.hosts.get(host)
        return member is not None and member.address == address

    def _end_quiet(self, there: AtHost) -> None:
        """A request that receives data goes on: its connection may be older than the fault."""
        for request, received in [*there.requests.items()]:
            if received.quiet_rounds >= SILENT and request.last_received() is received.last:
                request.host_is_silent()
