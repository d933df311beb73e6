"""Moves a model between hosts: loads it on the target first, and stops it at the source only once it is ready."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from hotseat.errors import CannotMove, FleetDisconnected, HostUnresponsive, LoadFailed, NotRunning
from hotseat.fleet.claims import right_to_stop
from hotseat.fleet.member import READY
from hotseat.fleet.placement import HELP, Load, in_words, is_guess, obstacle_to_loading
from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.member import Member, PathState
    from hotseat.fleet.reconciler import Ourselves
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.store import Store
    from hotseat.identifiers import Address, HostName, Instant, ModelName, Seconds

LOOK_S: Seconds = 0.1
"""Host records arrive at most five times a second."""
BEGIN_S: Seconds = LEASE_S + 2.0
"""A claim that its host has not acted on by then is void."""
UNHEARD_S: Seconds = 3 * LEASE_S
"""Without a record of the target, which renews it every three seconds: while NATS is away, nothing of it arrives."""
BACKOFF = "backoff"
"""The phase of a model whose start failed."""
NOTHING_TO_STOP = ("cold", BACKOFF)


class FleetClient(Protocol):
    """Calls other hosts over HTTP."""

    async def path_to(self, address: Address) -> PathState:
        """Does a hotseat answer there in time?"""
        ...

    async def model_details(self, host: HostName, address: str, model: ModelName) -> dict[str, Any]:
        """What a host reports about a model. Raises HostUnresponsive with the problem."""
        ...

    async def stop(self, host: HostName, address: str, model: ModelName) -> None:
        """Return once the model's process there is gone. Raises NotRunning, or HostUnresponsive with the problem."""
        ...


class Moves:
    def __init__(
        self,
        roster: Roster,
        store: Store,
        host_selector: HostSelector,
        ourselves: Ourselves,
        fleet_client: FleetClient,
        clock: Callable[[], Instant],
    ) -> None:
        self._roster, self._store, self._host_selector = roster, store, host_selector
        self._ourselves, self._fleet_client, self._clock = ourselves, fleet_client, clock

    async def move(self, model: ModelName, to: HostName) -> str:
        """Returns a description of what was done. After an interruption, a second call does the rest."""
        self._ourselves.look_at_ourselves()
        if not self._is_ready(model, to):
            self._check(model, to)
            await self._claim(model, to)
            await self._until_ready(model, to)
        source = self._one_too_many(model, to)
        if source is None:
            return f"{model} is ready on {to}; no surplus copy on another host"
        async with right_to_stop(self._store, model, to, self._roster.me):
            await self._check_still_ready(model, to)
            await self._stop(model, source, to)
        return f"{model} is ready on {to} and has stopped on {source.name}"

    # The target

    def _check(self, model: ModelName, to: HostName) -> None:
        member = self._roster.hosts.get(to)
        if member is None:
            raise CannotMove(f"{to} is not in the fleet at present, so {model} cannot move there.")
        offer = self._roster.offer(member, model)
        if offer is None:
            raise CannotMove(f"{to} does not have {model} in its configuration. Add it there first.")
        obstacle = obstacle_to_loading(model, self._roster, member, offer, self._clock())
        if obstacle and not is_guess(obstacle, offer):
            problem = in_words(obstacle, model, self._roster, [member])
            raise CannotMove(f"{model} cannot move to {to}, which is {problem}. First {HELP[obstacle]}.")

    async def _claim(self, model: ModelName, to: HostName) -> None:
        replica = sum(1 for _ in self._roster.hosts.residences(model))
        while True:
            agreed = await self._host_selector.decide(
                Load(model, to, replica, "moved here by an operator"), unasked=True
            )
            if agreed.revision is None:
                raise FleetDisconnected(
                    f"{model} was not moved: NATS is unreachable, so {to} cannot be instructed. Try again later."
                )
            if agreed.is_ours:
                return
            if agreed.claim.host != to and not self._roster.hosts.shows(agreed.claim):
                chosen = f"{agreed.claim.host} was chosen to load it a moment ago ({agreed.claim.reason})"
                raise CannotMove(f"{model} cannot move to {to} yet: {chosen}. Try again when it is ready.")
            replica += 1  # that claim was acted on and is about to end, or ended and left no model

    async def _until_ready(self, model: ModelName, to: HostName) -> None:
        was, begun = self._phase(model, to), False
        until = self._clock() + BEGIN_S
        while not self._is_ready(model, to):
            phase = self._phase(model, to)
            has_failed = phase == BACKOFF and (begun or was != BACKOFF)
            if has_failed or (begun and phase is None) or (not begun and self._clock() > until):
                raise await self._failure(model, to)
            member = self._roster.hosts.get(to)
            if member and self._clock() - member.received_at > UNHEARD_S:
                raise FleetDisconnected(
                    f"nothing was heard of {to} for {UNHEARD_S:g} s, so it is unknown whether {model} is ready there, "
                    "and nothing was stopped on other hosts. Try again when NATS is reachable."
                )
            begun = begun or phase not in (None, BACKOFF)
            await asyncio.sleep(LOOK_S)
            self._ourselves.look_at_ourselves()

    async def _failure(self, model: ModelName, to: HostName) -> LoadFailed | HostUnresponsive:
        member = self._roster.hosts.get(to)
        if member is None:
            return HostUnresponsive(
                f"{to} left the fleet before {model} was ready there; nothing was stopped on other hosts"
            )
        try:
            details = await self._fleet_client.model_details(to, member.record.address, model)
            why = details.get("last_error") or details.get("why") or f"{to} gave no reason"
        except HostUnresponsive as problem:
            why = problem.message
        return LoadFailed(f"{model} did not become ready on {to}, and nothing was stopped on other hosts: {why}")

    # The source

    def _one_too_many(self, model: ModelName, to: HostName) -> Member | None:
        """The other host to stop it on: ready, with the least load; None if all replicas are wanted."""
        others = [
            (residence.phase != READY, member.load_per_slot(model), member.name)
            for member, residence in self._roster.hosts.residences(model)
            if member.name != to and residence.phase not in NOTHING_TO_STOP
        ]
        if not others or len(others) < self._roster.catalog.kept.get(model, 0):
            return None
        return self._roster.hosts.get(min(others)[-1])

    async def _check_still_ready(self, model: ModelName, to: HostName) -> None:
        """Ask the host itself: its record may be older than the end of another move."""
        member = self._roster.hosts.get(to)
        try:
            if member is None or to == self._roster.me:
                is_ready = self._is_ready(model, to)
            else:
                details = await self._fleet_client.model_details(to, member.record.address, model)
                is_ready = details.get("phase") == READY
        except HostUnresponsive as problem:
            said = f"{model} was not stopped elsewhere, because {to} could not be asked whether it is still ready there"
            raise CannotMove(f"{said}: {problem.message}. Try again.") from None
        if not is_ready:
            raise CannotMove(f"{model} was ready on {to} and is not any more, so it was not stopped elsewhere.")

    async def _stop(self, model: ModelName, source: Member, to: HostName) -> None:
        try:
            if source.name == self._roster.me:
                await self._ourselves.unload(model)
            else:
                await self._fleet_client.stop(source.name, source.record.address, model)
        except NotRunning:
            return  # it stopped by itself
        except HostUnresponsive as problem:
            raise HostUnresponsive(
                f"{model} is ready on {to}, but {source.name} still has it: {problem.message}"
            ) from None

    def _phase(self, model: ModelName, host: HostName) -> str | None:
        member = self._roster.hosts.get(host)
        residence = member.residents.get(model) if member else None
        return residence.phase if residence else None

    def _is_ready(self, model: ModelName, host: HostName) -> bool:
        return self._phase(model, host) == READY
