"""Requests that this host has forwarded: one at a host that stops answering ends, instead of waiting for ever.

The kernel of a stopped host still accepts and acknowledges data, so the connection does not show it. A host from which
no record has arrived for the time of a lease is asked over HTTP: if NATS is the problem, it answers, and its requests
continue.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hotseat.fleet.store import LEASE_S
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Address, HostName, Instant, Seconds

    Answers = Callable[[Address], Awaitable[bool]]

ROUND_S: Seconds = 3.0
SILENT = 3
"""Questions without answer, one after the other, before a host counts as silent."""


class Forwarded(Protocol):
    def host_is_silent(self) -> None:
        """End the request: whether it was executed is unknown, so it is not sent to another host."""
        ...


@dataclass(slots=True)
class AtHost:
    address: Address
    requests: dict[Forwarded, None] = field(default_factory=dict)
    unanswered: int = 0
    """Questions, one after the other."""


class ForwardedRequests:
    def __init__(self, roster: Roster, answers: Answers, clock: Callable[[], Instant]) -> None:
        self._roster, self._answers, self._clock = roster, answers, clock
        self._hosts: dict[HostName, AtHost] = {}
        """Those with requests in progress."""

    def sent(self, host: HostName, address: Address, request: Forwarded) -> None:
        there = self._hosts.setdefault(host, AtHost(address))
        there.address = address
        there.requests[request] = None

    def over(self, host: HostName, request: Forwarded) -> None:
        if there := self._hosts.get(host):
            there.requests.pop(request, None)
            if not there.requests:
                del self._hosts[host]

    async def keep_checking(self) -> None:
        await forever(self._check_silent, "check hosts with forwarded requests", ROUND_S)

    async def _check_silent(self) -> None:
        silent = [there for host, there in self._hosts.items() if not self._has_reported(host)]
        await asyncio.gather(*map(self._check, silent))

    def _has_reported(self, host: HostName) -> bool:
        member = self._roster.hosts.get(host)
        return member is not None and self._clock() - member.received_at < LEASE_S

    async def _check(self, there: AtHost) -> None:
        if await self._answers(there.address):
            there.unanswered = 0
            return
        there.unanswered += 1
        if there.unanswered >= SILENT:
            for request in [*there.requests]:
                request.host_is_silent()
