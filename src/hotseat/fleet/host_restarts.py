"""Restarts another host of the fleet, and waits until it is back with a new process and its models."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from hotseat.errors import FleetDisconnected, HostUnresponsive, RestartFailed
from hotseat.fleet.host_headers import ADMIN, RESTART
from hotseat.fleet.member import ASLEEP, LEAVING, LOADING, READY
from hotseat.fleet.other_hosts import Receiver, check_health, reason_of
from hotseat.fleet.view import FleetConnection
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.errors import HotseatError
    from hotseat.fleet.member import Member
    from hotseat.fleet.other_hosts import HostHttp
    from hotseat.fleet.records import Offer
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import ClientId, HostName, Instant, ModelName, Seconds

LOOK_S: Seconds = 0.1
RESTART_S: Seconds = 700.0
"""A host waits up to eleven minutes for its new process, and for loads and unloads in progress."""
ANSWER_S: Seconds = 5.0
"""For it to answer at all: a host that hangs would use up all of the above."""
BACK_S: Seconds = 60.0
"""For its record with the new process to arrive here, and how long it may have none meanwhile."""
QUIET_S: Seconds = 90.0
"""For its new process to start and take over, from when no model there is loading or leaving: it waits for those."""
LOADED = (READY, ASLEEP)
CHANGING = (LOADING, *LEAVING)


@dataclass(slots=True)
class Before:
    """A host as its old process described it last."""

    boot: str
    models: dict[ModelName, Offer | None]
    """Loaded ones, as they were defined: a restart must keep them."""


class HostRestarts:
    def __init__(
        self,
        roster: Roster,
        http: HostHttp,
        connection: Callable[[], FleetConnection],
        clock: Callable[[], Instant],
    ) -> None:
        self._roster, self._http, self._connection, self._clock = roster, http, connection, clock

    async def restart(self, host: HostName, by: ClientId) -> str:
        """Returns a description of what was done. If the caller leaves, the restart goes on."""
        member = self._roster.hosts.get(host)
        if member is None:
            raise HostUnresponsive(f"{host} is not in the fleet at present, so it was not restarted")
        if self._connection() is not FleetConnection.CONNECTED:
            raise FleetDisconnected(
                f"{host} was not restarted: NATS is unreachable, so it could not be seen to come back. Try again later."
            )
        await self._check_answers(Receiver(host, member.record.address))
        before = Before(member.record.boot, self._defined(member))
        await self._replace(Receiver(host, member.record.address), by, before)
        return await self._back(host, before)

    async def _check_answers(self, to: Receiver) -> None:
        try:
            check_health(await self._http.fetch("GET", to, "/health", ANSWER_S))
        except (OSError, ValueError) as problem:
            raise HostUnresponsive(
                f"{to.host} does not answer at {to.url} ({reason_of(problem)}), so it was not restarted"
            ) from problem

    async def _replace(self, to: Receiver, by: ClientId, before: Before) -> None:
        """Meanwhile its models may change: those of the last record of its old process count."""
        tasks = Tasks()
        try:
            asked = tasks.start(self._ask(to, by), "ask a host to restart")
            until, quiet_until = self._clock() + BACK_S, self._clock() + QUIET_S
            while not asked.done():
                await asyncio.wait([asked], timeout=LOOK_S)
                now, member = self._clock(), self._roster.hosts.get(to.host)
                if member:
                    until = now + BACK_S
                elif now > until:
                    raise HostUnresponsive(f"{to.host} was told to restart, left the fleet and did not return")
                if member and any(each.phase in CHANGING for each in member.residents.values()):
                    quiet_until = now + QUIET_S
                elif now > quiet_until:
                    raise HostUnresponsive(
                        f"{to.host} was told to restart and does not say how that went, although no model is loading "
                        f"or leaving there for {QUIET_S:g} s; see its log"
                    )
                self._note(to.host, before)
        finally:
            await tasks.aclose()
        if problem := asked.result():
            raise problem

    async def _ask(self, to: Receiver, by: ClientId) -> HotseatError | None:
        """The problem, if it did not restart."""
        try:
            status, said = await self._http.ask("POST", to, RESTART, RESTART_S, ADMIN, by)
        except (OSError, ValueError) as problem:
            reason = reason_of(problem)
            return HostUnresponsive(f"{to.host} was told to restart and did not say how that went ({reason})")
        if status == HTTPStatus.OK:
            return None
        return RestartFailed(f"{to.host} did not restart: {said.get('error', f'it responded {status}')}")

    def _note(self, host: HostName, before: Before) -> None:
        member = self._roster.hosts.get(host)
        if member and member.record.boot == before.boot:
            before.models = self._defined(member)

    def _defined(self, member: Member) -> dict[ModelName, Offer | None]:
        return {model: self._roster.offer(member, model) for model in loaded_on(member)}

    async def _back(self, host: HostName, before: Before) -> str:
        until = self._clock() + BACK_S
        while (missing := self._missing(host, before)) is None or missing:
            if self._clock() > until:
                raise RestartFailed(_late(host, missing))
            await asyncio.sleep(LOOK_S)
        return self._in_words(host, before)

    def _missing(self, host: HostName, before: Before) -> frozenset[ModelName] | None:
        """Models that its new process should have and does not; None: that process is not in the fleet yet.

        A drained host unloads its models, and a new process stops those whose definition has changed.
        """
        member = self._roster.hosts.get(host)
        if member is None or member.record.boot == before.boot or not self._roster.catalog.has(member.record.catalog):
            return None
        if self._roster.orders.of(host).drained:
            return frozenset()
        same = {model for model, offer in before.models.items() if self._roster.offer(member, model) == offer}
        return frozenset(same - loaded_on(member))

    def _in_words(self, host: HostName, before: Before) -> str:
        member = self._roster.hosts.get(host)
        kept = sorted(before.models.keys() & loaded_on(member)) if member else []
        version = f" as version {member.record.version}" if member and member.record.version else ""
        models = f"with its models: {', '.join(kept)}" if kept else "without a loaded model"
        return f"{host} has restarted{version}, {models}"


def loaded_on(member: Member) -> frozenset[ModelName]:
    return frozenset(each.model for each in member.residents.values() if each.phase in LOADED)


def _late(host: HostName, missing: frozenset[ModelName] | None) -> str:
    if missing is None:
        return f"{host} has restarted, but was not back in the fleet after {BACK_S:g} s; see its log"
    names = ", ".join(sorted(missing))
    return f"{host} has restarted, but without {names}; `hotseat fleet why MODEL` says what happened"
