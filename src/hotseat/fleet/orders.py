"""Operators' orders for hosts: given in the store, and carried out by a host that is drained.

Two different orders given at the same time both take effect. An order that is taken back is written as an empty one and
never removed: a missing record means that the store has lost its state, and whoever knows the order writes it again. If
that one did not hear of a later order or revocation, those who did write the later one.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING

from hotseat.errors import FleetDisconnected
from hotseat.fleet.member import BACKOFF, COLD, READY
from hotseat.fleet.placement import Load, Nowhere, load, replicas
from hotseat.fleet.records import HostOrder, decoded, encoded
from hotseat.fleet.replicas import Spare, is_unused, woken
from hotseat.fleet.store import Bucket, Conflict, StoreError
from hotseat.fleet.view import Order, orders_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hotseat.fleet.host_selector import HostSelector
    from hotseat.fleet.member import Member
    from hotseat.fleet.records import Residence
    from hotseat.fleet.roster import Roster
    from hotseat.fleet.store import Store, Written
    from hotseat.identifiers import HostName, Instant, ModelName

    Orders = frozenset[Order]

log = logging.getLogger(__name__)
ROUNDS = 5
"""Write conflicts before the operator is asked to retry."""
TRIES = 3
"""Loads elsewhere of one model before it simply stops here: each may evict other models."""
NOTHING_TO_STOP = (COLD, BACKOFF)


def now_ms() -> int:
    return time_ns() // 1_000_000


async def change(store: Store, host: HostName, known: HostOrder, by: HostName, to: Callable[[Orders], Orders]) -> None:
    """Replace a host's orders by `to(orders)`; FleetDisconnected if that could not be written.

    `known` are the orders that the store has lost, if it has none or older ones.
    """
    try:
        for _ in range(ROUNDS):
            found = await store.read(Bucket.ORDERS, host)
            stored = _order_in(found)
            last = known if stored is None or stored.is_older_than(known) else stored
            orders = to(orders_in(last))
            given_ms = max(now_ms(), last.given_ms + 1)  # clocks of hosts differ
            try:
                order = HostOrder(Order.CORDON in orders, Order.DRAIN in orders, by, given_ms)
                return await _write(store, host, found, order)
            except Conflict:
                continue
    except StoreError as problem:
        raise FleetDisconnected(f"nothing was changed for {host}: {problem}. Try again when NATS is back.") from problem
    raise FleetDisconnected(f"nothing was changed for {host}: too many concurrent changes. Try again.", retry_after=1)


async def restore(store: Store, host: HostName, order: HostOrder) -> None:
    """Write an order that the store has lost; if it has another one that is not older by now, that one holds."""
    with suppress(Conflict, StoreError):
        found = await store.read(Bucket.ORDERS, host)
        stored = _order_in(found)
        if stored is None or stored.is_older_than(order):
            await _write(store, host, found, order)


async def _write(store: Store, host: HostName, found: Written | None, order: HostOrder) -> None:
    if found is None:
        await store.create(Bucket.ORDERS, host, encoded(order))
    else:
        await store.replace(Bucket.ORDERS, host, encoded(order), found.revision)


def _order_in(found: Written | None) -> HostOrder | None:
    """An unreadable order counts as none and is overwritten."""
    try:
        return decoded(found.value, HostOrder) if found else None
    except ValueError:
        return None


class Drain:
    """Empties this host while it is drained: a model in use is loaded on another host first, and stops here after that.

    The drained host does this itself, from its order in the store and its own models. So it does not matter what
    becomes of the process that gave the order, and nothing must be saved: after a restart the host goes on with its
    models.
    """

    def __init__(self, roster: Roster, host_selector: HostSelector, changed: Callable[[], None]) -> None:
        """`changed` is called when others should know `released`."""
        self.released: frozenset[ModelName] = frozenset()
        """Models for which this host takes no more requests."""
        self._roster, self._host_selector, self._changed = roster, host_selector, changed
        self._tries: Counter[ModelName] = Counter()
        self._given_up: set[ModelName] = set()

    async def go(self, now: Instant, *, may_load: bool) -> list[Spare]:
        """One round: begins one load elsewhere at most, and returns what this host should stop.

        Without `may_load`, nobody could be told to load a model, so those in use stay.
        """
        me = self._roster.hosts.get(self._roster.me)
        if me is None or not self._roster.orders.of(me.name).drained:
            self._end()
            return []
        before = self.released
        if may_load:
            await self._load_next([each.model for each in self._staying(me, now)], now)
        staying = {each.model for each in self._staying(me, now)}
        self._release({model for model in me.residents if model not in staying})
        # A model that was released in an earlier round gets no request any more, so none is cut when it stops.
        return [Spare(each.model, "this host is drained") for each in _idle(me, before & self.released)]

    def _end(self) -> None:
        self._tries.clear()
        self._given_up.clear()
        self._release(())

    def _release(self, models: Collection[ModelName]) -> None:
        released = frozenset(models)
        if released != self.released:
            self.released = released
            self._changed()

    def _staying(self, me: Member, now: Instant) -> list[Residence]:
        """Models that no other host can serve yet, the most recently used ones first."""
        found = [
            each
            for each in me.residents.values()
            if each.model not in self._given_up
            and is_in_use(me, each, self._roster, now)
            and not replicas(each.model, self._roster, now)[0]
        ]
        return sorted(found, key=lambda each: each.idle_s)

    async def _load_next(self, models: list[ModelName], now: Instant) -> None:
        if any(is_coming(model, self._roster, now) for model in models):
            return
        for model in models:
            target = target_of(model, self._roster, now)
            if isinstance(target, Load) and self._tries[model] < TRIES:
                await self._load(target)
                break
            self._give_up(model, target.reason if isinstance(target, Nowhere) else f"{TRIES} loads have failed")

    async def _load(self, target: Load) -> None:
        agreed = await self._host_selector.decide(target, unasked=True)
        if agreed.revision is not None:  # else NATS has just become unreachable
            self._tries[target.model] += 1

    def _give_up(self, model: ModelName, reason: str) -> None:
        self._given_up.add(model)
        log.warning("a model stops with the drain of this host and is loaded nowhere model=%s reason=%r", model, reason)


def is_in_use(me: Member, residence: Residence, roster: Roster, now: Instant) -> bool:
    """Ready, and requested recently or meant to be always there."""
    if residence.phase != READY:
        return False
    return residence.pinned or residence.model in roster.catalog.kept or not is_unused(me, residence, now)


def is_coming(model: ModelName, roster: Roster, now: Instant) -> bool:
    """Is it loading on another host, or was one chosen to load it?"""
    return any(not member.is_asleep(model) for _, member in replicas(model, roster, now)[1])


def target_of(model: ModelName, roster: Roster, now: Instant) -> Load | Nowhere:
    """The host that the next request would choose, except one where the model has failed."""
    asleep = [member for _, member in replicas(model, roster, now)[1]]
    found = woken(model, asleep, replica=0) if asleep else load(model, roster, now)
    if isinstance(found, Load) and (member := roster.hosts.get(found.host)) and model in member.backing_off:
        return Nowhere(f"{model} has failed on {member.name}, and no other host can load it")
    return found


def _idle(me: Member, released: Collection[ModelName]) -> list[Residence]:
    return [
        each
        for each in me.residents.values()
        if each.model in released and each.phase not in NOTHING_TO_STOP and not (each.in_flight or each.waiting)
    ]
