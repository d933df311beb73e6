"""The work that a host does for the fleet without a request: periodically, and when it was chosen to load a model."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Protocol

from hotseat.errors import HotseatError
from hotseat.fleet.claims import release
from hotseat.fleet.orders import Drain, restore
from hotseat.fleet.records import Claim, decoded
from hotseat.fleet.replicas import one_more, to_keep, to_spare, too_many
from hotseat.fleet.revision_tracker import Ledger
from hotseat.fleet.store import LEASE_S, BegunAnew, Bucket, CaughtUp, Removed, Written
from hotseat.fleet.view import FleetConnection
from hotseat.tasks import forever

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.placement import Load
    from hotseat.fleet.replicas import Spare
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.store import Change, Store
    from hotseat.identifiers import Instant, ModelName, Seconds
    from hotseat.tasks import Tasks

log = logging.getLogger(__name__)

ROUND_S: Seconds = 1.0
JOINED_S: Seconds = LEASE_S
"""Before a host chooses hosts for missing replicas: others start with it, or return with NATS, and have some."""
SETTLES_S: Seconds = 5.0
"""A surplus replica stops after this time, since a model that moves is on two hosts for a moment."""

MOST_ACTED_ON = 1000
"""Claims that are remembered: far more than a store has at the same time."""


class Ourselves(Protocol):
    """This host and its models."""

    @property
    def connection(self) -> FleetConnection: ...

    def look_at_ourselves(self) -> None:
        """Update this host's own entry in the roster."""
        ...

    def notify(self) -> None:
        """Something that other hosts should know has changed."""
        ...

    async def load(self, model: ModelName) -> None: ...
    async def unload(self, model: ModelName) -> None: ...


class Reconciler:
    def __init__(
        self,
        roster: Roster,
        store: Store,
        host_selector: HostSelector,
        ourselves: Ourselves,
        tasks: Tasks,
        clock: Callable[[], Instant],
    ) -> None:
        self._roster, self._store, self._host_selector, self._ourselves = roster, store, host_selector, ourselves
        self._tasks, self._clock = tasks, clock
        self.drain = Drain(roster, host_selector, ourselves.notify)
        self._claims = Ledger()
        self._acted_on: dict[str, str] = {}
        """The last claim that this host acted on, by key: an interrupted watch reports it again."""
        self._in_progress: set[ModelName] = set()
        """Models that are being loaded or stopped for the fleet."""
        self._connected_since: Instant = inf
        self._too_many: dict[ModelName, Instant] = {}
        """Since when a replica has been surplus here."""

    async def keep_going(self) -> None:
        await forever(self.go, "reconcile the fleet", ROUND_S)

    async def go(self) -> None:
        """One round."""
        self._ourselves.look_at_ourselves()
        self._host_selector.forget_absent()
        now = self._clock()
        for held in self._roster.claims.fulfilled(self._roster.me, now):
            await release(self._store, held)
        is_connected = self._ourselves.connection is FleetConnection.CONNECTED
        if self._is_settled(now, is_connected=is_connected):
            for wanted in [*to_keep(self._roster, now), *self._more(now)]:
                await self._host_selector.decide(wanted, unasked=True)
        surplus = [*to_spare(self._roster, now), *self._lasting(too_many(self._roster, now), now)]
        for spare in [*surplus, *await self.drain.go(now, may_load=is_connected)]:
            self._stop(spare.model, spare.reason)
        for host, order in [*self._roster.orders.lost()]:
            await restore(self._store, host, order)

    def _is_settled(self, now: Instant, *, is_connected: bool) -> bool:
        """Is this host in the fleet, with its name, and are those known that joined with it?"""
        self._connected_since = min(self._connected_since, now) if is_connected else inf
        return now - self._connected_since >= JOINED_S

    def on_change(self, bucket: Bucket, change: Change) -> None:
        """Load the model if this host was chosen to load it without a request."""
        if bucket is not Bucket.CLAIMS:
            return
        match change:
            case BegunAnew():
                self._claims.begun_anew()
            case CaughtUp():
                self._claims.caught_up()
            case Removed(key=key, revision=revision):
                self._claims.removed(key, revision)
            case Written(key=key, revision=revision):
                if self._claims.wrote(key, revision):
                    self._act_on(change)

    def _act_on(self, written: Written) -> None:
        try:
            claim = decoded(written.value, Claim)
        except ValueError:
            return  # the roster counts these
        is_for_us = claim.host == self._roster.me and claim.unasked
        if is_for_us and not (claim.id and claim.id == self._acted_on.get(written.key)):
            self._acted_on[written.key] = claim.id
            if len(self._acted_on) > MOST_ACTED_ON:
                del self._acted_on[next(iter(self._acted_on))]
            self._load(claim)

    def _more(self, now: Instant) -> list[Load]:
        wanted = (one_more(model, self._roster, now) for model in self._host_selector.asked_for())
        return [load for load in wanted if load is not None]

    def _lasting(self, spares: list[Spare], now: Instant) -> list[Spare]:
        """Those that have been surplus for a while, by records that arrived meanwhile: an older one may be outdated."""
        self._too_many = {spare.model: self._too_many.get(spare.model, now) for spare in spares}
        lasting = [spare for spare in spares if now - self._too_many[spare.model] >= SETTLES_S]
        return [spare for spare in lasting if spare.oldest_record_at > self._too_many[spare.model]]

    def _load(self, claim: Claim) -> None:
        log.info("loading for the fleet model=%s requested_by=%s reason=%r", claim.model, claim.by, claim.reason)
        self._run(claim.model, self._ourselves.load)

    def _stop(self, model: ModelName, reason: str) -> None:
        if model not in self._in_progress:
            log.info("stopping for the fleet model=%s reason=%r", model, reason)
            self._run(model, self._ourselves.unload)

    def _run(self, model: ModelName, task: Callable[[ModelName], Awaitable[None]]) -> None:
        self._in_progress.add(model)
        self._tasks.start(self._carried_out(model, task), f"order of the fleet for {model}")

    async def _carried_out(self, model: ModelName, task: Callable[[ModelName], Awaitable[None]]) -> None:
        try:
            await task(model)
        except HotseatError as problem:
            log.warning("an order of the fleet failed model=%s error=%r", model, problem.message)
        finally:
            self._in_progress.discard(model)
