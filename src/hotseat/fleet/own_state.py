"""What this host must know again after a restart; saved elsewhere."""

from __future__ import annotations

import secrets
from typing import Protocol

from hotseat.fleet.records import HostOrder
from hotseat.fleet.view import Order


class OwnState(Protocol):
    token: str
    """Of this machine: with it, a killed host gets its name back before its lease ends."""
    orders: frozenset[str]
    """Operators' orders for this host."""
    ordered_ms: int
    """When the last of them was given or revoked; 0: unknown."""

    def keep_orders(self, orders: frozenset[str], ordered_ms: int) -> None: ...

    async def saved(self) -> None:
        """Returns when the orders so far are saved, or cannot be."""


class UnsavedState:
    """Of a host without a state directory."""

    def __init__(self) -> None:
        self.token = secrets.token_hex()
        self.orders: frozenset[str] = frozenset()
        self.ordered_ms = 0

    def keep_orders(self, orders: frozenset[str], ordered_ms: int) -> None:
        self.orders, self.ordered_ms = orders, ordered_ms

    async def saved(self) -> None:
        pass


def order_of(own: OwnState) -> HostOrder:
    return HostOrder(Order.CORDON.value in own.orders, Order.DRAIN.value in own.orders, given_ms=own.ordered_ms)
