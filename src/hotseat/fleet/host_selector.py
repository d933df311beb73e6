"""Selects the host that serves a request; asks the store where hosts must agree first."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hotseat.errors import HotseatError, NoHostAvailable, NotServed
from hotseat.fleet.claims import ClaimsInProgress, claim, key_of
from hotseat.fleet.forwarded import ForwardedRequests
from hotseat.fleet.placement import Load, Nowhere, place
from hotseat.fleet.proofs import LogLimit
from hotseat.fleet.route import THIS_HOST, OtherHost
from hotseat.fleet.view import FleetCounters

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from hotseat.fleet.claims import Agreed
    from hotseat.fleet.forwarded import Forwarded, PathTo
    from hotseat.fleet.placement import Decision
    from hotseat.fleet.proofs import Signer
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.route import Route
    from hotseat.fleet.store import Store
    from hotseat.identifiers import ClientId, HostName, Instant, ModelName, Seconds
    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)

WARN_S: Seconds = 60.0
ROUNDS = 3
"""Attempts, since a host may be gone by the time it was agreed on."""


class HostSelector:
    def __init__(
        self,
        roster: Roster,
        store: Store,
        signer: Signer,
        tasks: Tasks,
        clock: Callable[[], Instant],
        look_at_ourselves: Callable[[], None],
        path_to: PathTo,
    ) -> None:
        """`look_at_ourselves` updates this host's own entry in the roster; `path_to` asks another host."""
        self.name = roster.me
        self.forwarded = ForwardedRequests(roster, path_to, self.suspect)
        self.signer = signer
        self._warnings = LogLimit(WARN_S, clock)
        self.counters = FleetCounters()
        self._roster = roster
        self._store = store
        self._tasks = tasks
        self._clock = clock
        self._look_at_ourselves = look_at_ourselves
        self._asked_for: set[ModelName] = set()
        self._claims = ClaimsInProgress(tasks)

    # Called by the relay

    def select(self, model: ModelName, client: ClientId, without: Collection[HostName] = ()) -> Route | None:
        """The host to use; None if hosts must agree first. Raises if no host can serve it.

        `without`: hosts that could not.
        """
        self._asked_for.add(model)
        self._look_at_ourselves()
        decision = place(model, client, self._roster, self._clock(), without)
        return None if isinstance(decision, Load) else self._where(decision)

    def claim_and_select(
        self,
        model: ModelName,
        client: ClientId,
        agreed: Callable[[Route | HotseatError], None],
        without: Collection[HostName] = (),
    ) -> asyncio.Task[None]:
        """The same after the hosts agree; calls `agreed` once, unless the task is cancelled."""

        async def ask() -> None:
            where: Route | HotseatError
            try:
                where = await self._agreed(model, client, without)
            except HotseatError as nobody:
                where = nobody
            agreed(where)

        return self._tasks.start(ask(), f"agree on {model}")

    def check_taken(self, model: ModelName) -> None:
        """Raises NotServed for a request of another host, which does not know the orders for this one yet."""
        order = self._roster.orders.of(self.name)
        if not order.is_given:
            return
        self._look_at_ourselves()
        me = self._roster.hosts.get(self.name)
        if order.drained and not (me and (me.still_serves(model) or me.is_loading(model))):
            raise NotServed(f"{self.name} is drained and takes no requests for {model}.")
        if not (me and me.is_running(model)):
            raise NotServed(f"{self.name} is cordoned and does not load {model}.")

    def sent(self, where: OtherHost, model: ModelName, request: Forwarded) -> None:
        self.counters.passed_on[where.host] += 1
        self._roster.sent(where.host, model)
        self.forwarded.sent(where.host, where.address, request)

    def came_back(self, host: HostName, model: ModelName, request: Forwarded) -> None:
        self._roster.came_back(host, model)
        self.forwarded.over(host, request)

    def note_load(self, host: HostName, model: ModelName, load: int) -> None:
        self._roster.note_load(host, model, load)

    def failed(self, host: HostName, model: ModelName) -> None:
        self._roster.failed(host, model)

    def disbelieved(self, host: HostName, reason: str) -> None:
        if self._warnings.lets_through(host):
            log.warning("a host does not trust this one and rejects its requests host=%s reason=%r", host, reason)

    def suspect(self, host: HostName, problem: str) -> None:
        """Send it no requests for a while."""
        self._roster.suspect(host, self._clock(), problem)
        if problem and self._warnings.lets_through(host):
            log.warning("a host gets no requests for a while host=%s reason=%r", host, problem)

    def turned_away(self, host: HostName, model: ModelName, problem: str = "") -> None:
        """`problem`: why it is unusable; empty: it only does not serve this request."""
        self.counters.turned_away[host] += 1
        if self._roster.orders.of(host).is_given:  # it may still serve other models
            self._roster.failed(host, model)
        else:
            self.suspect(host, problem)

    # For the reconciler

    def forget_absent(self) -> None:
        """Hosts come and go under new names, and their counters would only grow."""
        self.counters.keep_only(self._roster.hosts.names())

    def asked_for(self) -> set[ModelName]:
        """The models requested since the last call."""
        asked, self._asked_for = self._asked_for, set()
        return asked

    async def decide(self, decision: Load, *, unasked: bool = False) -> Agreed:
        """Claim the load, or learn who was first: another host, or somebody else on this one."""
        key = key_of(decision.model, decision.replica)
        return await self._claims.agreed(key, lambda: self._claim(decision, unasked=unasked))

    async def _claim(self, decision: Load, *, unasked: bool) -> Agreed:
        """The roster gets the claim before the watch reports it, or the end of all that an empty store has lost."""
        agreed = await claim(self._store, decision, self._roster.me, unasked=unasked)
        self.counters.agreed(agreed, self._roster.me)
        chosen = agreed.claim
        if not unasked:
            log.info("chose host=%s to load model=%s reason=%r", chosen.host, chosen.model, chosen.reason)
        if agreed.revision is not None:
            self._roster.agreed(key_of(chosen.model, chosen.replica), chosen, agreed.revision, self._clock())
        return agreed

    # Decisions

    async def _agreed(self, model: ModelName, client: ClientId, without: Collection[HostName]) -> Route:
        for _ in range(ROUNDS):
            decision = place(model, client, self._roster, self._clock(), without)
            if not isinstance(decision, Load):
                return self._where(decision)
            agreed = await self.decide(decision)
            if agreed.revision is None:  # disconnected: the decision of this host is final
                return self._alone(model, client, agreed.claim.host, without)
        raise NoHostAvailable(f"{model} cannot be placed: the hosts chosen to load it do not respond. Try again.")

    def _alone(self, model: ModelName, client: ClientId, chosen: HostName, without: Collection[HostName]) -> Route:
        """Use another host if, while the store did not answer, it was found to have the model, or `chosen` left."""
        now_known = place(model, client, self._roster, self._clock(), without)
        if isinstance(now_known, Load | Nowhere) and chosen not in without and self._roster.hosts.get(chosen):
            return self._at(chosen)
        return self._where(now_known)

    def _where(self, decision: Decision) -> Route:
        if isinstance(decision, Nowhere):
            raise NoHostAvailable(decision.reason, may_pass=decision.may_pass)
        return self._at(decision.host)

    def _at(self, host: HostName) -> Route:
        if host == self._roster.me:
            return THIS_HOST
        member = self._roster.hosts.get(host)
        if member is None:
            raise NoHostAvailable(f"{host} was chosen but has left the fleet. Try again.")
        return OtherHost(host, member.address)
