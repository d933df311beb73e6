"""What the other hosts of the fleet answer: many are asked at once, and one that is silent delays nobody."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from hotseat.error_bodies import one_line
from hotseat.errors import HostUnresponsive
from hotseat.fleet.host_http import MOST_OF_A_LIST, Receiver, reason_of
from hotseat.fleet.roster import LONGEST_REASON

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from hotseat.fleet.host_http import HostHttp
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import HostName, Seconds

T = TypeVar("T")

AT_ONCE = 32
"""So many connections, and so many answers of 2 MiB in memory."""
ANSWER_S: Seconds = 5.0
QUIET_S: Seconds = 30.0
"""Feeds have a heartbeat every ten seconds."""


class OtherHosts:
    def __init__(self, roster: Roster, http: HostHttp) -> None:
        self._roster, self._http = roster, http

    def names(self) -> list[HostName]:
        return sorted(member.name for member in self._roster.hosts if member.name != self._roster.me)

    async def read_all(
        self, hosts: Iterable[HostName], path: str, kept: Callable[[bytes], T]
    ) -> dict[HostName, T | HostUnresponsive]:
        """What is kept of each host's answer, or the problem: no answer in time, or one that `kept` cannot read.

        `kept` gets each answer as it arrives, in a turn of the event loop of its own, and the rest of it is forgotten.
        It raises ValueError for an answer that it cannot read.
        """
        places = asyncio.Semaphore(AT_ONCE)

        async def read(host: HostName) -> T | HostUnresponsive:
            async with places:
                return await self._read(host, path, kept)

        names = list(hosts)
        return dict(zip(names, await asyncio.gather(*map(read, names)), strict=True))

    async def _read(self, host: HostName, path: str, kept: Callable[[bytes], T]) -> T | HostUnresponsive:
        try:
            answer = await self._http.fetch("GET", self.receiver(host), path, ANSWER_S, most=MOST_OF_A_LIST)
            if answer.status != HTTPStatus.OK:
                return HostUnresponsive(f"{host} responded {answer.status}")
            return kept(answer.body)
        except HostUnresponsive as problem:
            return problem
        except (OSError, ValueError) as problem:  # includes timeouts
            return HostUnresponsive(f"{host} did not answer ({one_line(reason_of(problem), LONGEST_REASON)})")

    async def follow(self, host: HostName, path: str) -> AsyncGenerator[bytes, None]:
        """The lines of a feed of that host; HostUnresponsive if it breaks off."""
        try:
            async with aclosing(self._http.follow(self.receiver(host), path, ANSWER_S, QUIET_S)) as lines:
                async for line in lines:
                    yield line
        except (OSError, ValueError) as problem:
            raise HostUnresponsive(f"{host} does not answer any more ({reason_of(problem)})") from problem

    def receiver(self, host: HostName) -> Receiver:
        member = self._roster.hosts.get(host)
        if member is None:
            raise HostUnresponsive(f"{host} has left the fleet")
        return Receiver(host, member.record.address)
