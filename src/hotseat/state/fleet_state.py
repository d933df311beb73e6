"""What a host of a fleet knows again after a restart, even while NATS is away.

By its token it shows that it has had its name before. The orders are those that operators have given for it.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from hotseat.state.state_file import FORMAT
from hotseat.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotseat.state.state_file import StateFile

FLEET = "fleet.json"
"""In the state directory."""
BYTES = 32


class FleetState:
    """If it cannot be saved, only a restart hands it over: after other starts the token is another one, and orders are
    known once NATS is reached."""

    def __init__(self, file: StateFile, host: str, handed: Mapping[str, Any]) -> None:
        """`host` is its name, with that of the fleet: orders for another name, or of another fleet, do not count.

        `handed` is what the process that this one replaces has told; empty: this is an ordinary start.
        """
        self._file, self._host, kept = file, host, {**file.read(), **handed}
        self._tasks, self._one_write = Tasks(), asyncio.Lock()
        is_for_us, ordered_ms = kept.get("host") == host, kept.get("ordered_ms")
        self.orders = _orders_in(kept.get("orders")) if is_for_us else frozenset()
        self.ordered_ms = ordered_ms if is_for_us and isinstance(ordered_ms, int) else 0
        token = kept.get("token")
        if isinstance(token, str) and len(token) == 2 * BYTES:
            self.token = token
        else:
            self.token = token_hex(BYTES)
            self._write()

    def keep_orders(self, orders: frozenset[str], ordered_ms: int) -> None:
        """Written in a thread, since a disk may be slow; `saved` waits for it."""
        if (orders, ordered_ms) != (self.orders, self.ordered_ms):
            self.orders, self.ordered_ms = orders, ordered_ms
            self._tasks.start(self._save(), "save the orders of this host")

    async def saved(self) -> None:
        """Returns when all orders so far are in the file, or cannot be saved."""
        while writes := [*self._tasks]:
            await asyncio.wait(writes)

    async def _save(self) -> None:
        async with self._one_write:  # each writes the newest orders, so the last one decides
            await asyncio.to_thread(self._write)

    def facts(self) -> dict[str, Any]:
        """For the file, and for the process that replaces this one."""
        return {"token": self.token, "host": self._host, "orders": sorted(self.orders), "ordered_ms": self.ordered_ms}

    def _write(self) -> None:
        self._file.write({"format": FORMAT, **self.facts()})


def _orders_in(kept: object) -> frozenset[str]:
    return frozenset(order for order in kept if isinstance(order, str)) if isinstance(kept, list) else frozenset()
