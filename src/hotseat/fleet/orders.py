"""Operators' orders in the store, written so that two different orders given at the same time both take effect."""

from __future__ import annotations

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


async def change(store: Store, host: HostName, by: HostName, to: Callable[[Orders], Orders]) -> None:
    """Replace a host's orders by `to(orders)`; FleetDisconnected if that could not be written."""
    try:
        for _ in range(ROUNDS):
            found = await store.read(Bucket.ORDERS, host)
            try:
                return await _write(store, host, found, to(_orders(found)), by)
            except Conflict:
                continue
    except StoreError as problem:
        raise FleetDisconnected(f"nothing was changed for {host}: {problem}. Try again when NATS is back.") from problem
    raise FleetDisconnected(f"nothing was changed for {host}: too many concurrent changes. Try again.", retry_after=1)


async def _write(store: Store, host: HostName, found: Written | None, orders: Orders, by: HostName) -> None:
    value = encoded(HostOrder(Order.CORDON in orders, Order.DRAIN in orders, by))
    if found is None:
        if orders:
            await store.create(Bucket.ORDERS, host, value)
    elif orders:
        await store.replace(Bucket.ORDERS, host, value, found.revision)
    else:
        await store.remove(Bucket.ORDERS, host, found.revision)


def _orders(found: Written | None) -> Orders:
    """An unreadable order counts as none and is overwritten."""
    try:
        return orders_in(decoded(found.value, HostOrder)) if found else frozenset()
    except ValueError:
        return frozenset()
