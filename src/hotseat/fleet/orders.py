"""Operators' orders in the store, written so that two different orders given at the same time both take effect.

An order that is taken back is written as an empty one and never removed: a missing record means that the store has lost
its state, and whoever knows the order writes it again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hotseat.errors import FleetDisconnected
from hotseat.fleet.records import HostOrder, decoded, encoded
from hotseat.fleet.snapshot import orders_in
from hotseat.fleet.store import Bucket, Conflict, StoreError
from hotseat.fleet.view import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotseat.fleet.store import Store, Written
    from hotseat.identifiers import HostName

    Orders = frozenset[Order]

ROUNDS = 5
"""Write conflicts before the operator is asked to retry."""


async def change(store: Store, host: HostName, known: HostOrder, by: HostName, to: Callable[[Orders], Orders]) -> None:
    """Replace a host's orders by `to(orders)`; FleetDisconnected if that could not be written.

    `known` are the orders that the store has lost, if it has none.
    """
    try:
        for _ in range(ROUNDS):
            found = await store.read(Bucket.ORDERS, host)
            try:
                return await _write(store, host, found, to(_orders(found, known)), by)
            except Conflict:
                continue
    except StoreError as problem:
        raise FleetDisconnected(f"nothing was changed for {host}: {problem}. Try again when NATS is back.") from problem
    raise FleetDisconnected(f"nothing was changed for {host}: too many concurrent changes. Try again.", retry_after=1)


async def restore(store: Store, host: HostName, order: HostOrder) -> None:
    """Write an order that the store has lost; if it has one by now, that one holds."""
    with suppress(Conflict, StoreError):
        await store.create(Bucket.ORDERS, host, encoded(order))


async def _write(store: Store, host: HostName, found: Written | None, orders: Orders, by: HostName) -> None:
    value = encoded(HostOrder(Order.CORDON in orders, Order.DRAIN in orders, by))
    if found is None:
        await store.create(Bucket.ORDERS, host, value)
    else:
        await store.replace(Bucket.ORDERS, host, value, found.revision)


def _orders(found: Written | None, known: HostOrder) -> Orders:
    """An unreadable order counts as none and is overwritten."""
    try:
        return orders_in(decoded(found.value, HostOrder) if found else known)
    except ValueError:
        return frozenset()
