"""What this host must know again after a restart; saved elsewhere."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol

from hotseat.fleet.records import HostOrder
from hotseat.fleet.view import Order

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


class OwnState(Protocol):
    token: str
    """Of this machine: with it, a killed host gets its name back before its lease ends."""
    orders: frozenset[str]
    """Operators' orders for this host."""

    def keep_orders(self, orders: frozenset[str]) -> None: ...

    async def saved(self) -> None:
        """Returns when the orders so far are saved, or cannot be."""


class UnsavedState:
    """Of a host without a state directory."""

    def __init__(self) -> None:
        self.token = secrets.token_hex()
        self.orders: frozenset[str] = frozenset()

    def keep_orders(self, orders: frozenset[str]) -> None:
        self.orders = orders

    async def saved(self) -> None:
        pass


def order_of(names: AbstractSet[str]) -> HostOrder:
    return HostOrder(Order.CORDON.value in names, Order.DRAIN.value in names)
