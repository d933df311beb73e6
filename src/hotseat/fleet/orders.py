"""Operators' orders in the store, written so that two different orders given at the same time both take effect.

An order that is taken back is written as an empty one and never removed: a missing record means that the store has lost
its state, and whoever knows the order writes it again. If that one did not hear of a later order or revocation, those
who did write the later one.
"""

from __future__ import annotations

from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING

from hotseat.errors import FleetDisconnected
from hotseat.fleet.records import HostOrder, decoded, encoded
from hotseat.fleet.store import Bucket, Conflict, StoreError
from hotseat.fleet.view import Order, orders_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.store import Store, Written
    from hotseat.identifiers import HostName

    Orders = frozenset[Order]

ROUNDS = 5
"""Write conflicts before the operator is asked to retry."""


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
