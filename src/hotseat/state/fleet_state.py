"""What a host of a fleet knows again after a restart, even while NATS is away.

By its token it shows that it has had its name before. The orders are those that operators have given for it.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

from hotseat.state.state_file import FORMAT

if TYPE_CHECKING:
    from hotseat.state.state_file import StateFile

FLEET = "fleet.json"
"""In the state directory."""
BYTES = 32


class FleetState:
    """If it cannot be saved, the token is another one after each start, and orders are known once NATS is reached."""

    def __init__(self, file: StateFile, host: str) -> None:
        """`host` is its name, with that of the fleet: orders for another name, or of another fleet, do not count."""
        self._file, self._host, kept = file, host, file.read()
        self.orders = _orders_in(kept.get("orders")) if kept.get("host") == host else frozenset()
        token = kept.get("token")
        if isinstance(token, str) and len(token) == 2 * BYTES:
            self.token = token
        else:
            self.token = token_hex(BYTES)
            self._write()

    def keep_orders(self, orders: frozenset[str]) -> None:
        if orders != self.orders:
            self.orders = orders
            self._write()

    def _write(self) -> None:
        self._file.write({"format": FORMAT, "token": self.token, "host": self._host, "orders": sorted(self.orders)})


def _orders_in(kept: object) -> frozenset[str]:
    return frozenset(order for order in kept if isinstance(order, str)) if isinstance(kept, list) else frozenset()
