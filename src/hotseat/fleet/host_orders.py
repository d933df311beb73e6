"""PURE: operators' orders for hosts, as far as this host knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotseat.fleet.records import HostOrder
from hotseat.fleet.rendezvous import owner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hotseat.fleet.revision_tracker import Ledger
    from hotseat.identifiers import HostName

NO_ORDER = HostOrder()
MOST_KNOWN = 10_000
"""Above this number of hosts, the oldest revocations are forgotten."""


class HostOrders:
    def __init__(self, me: HostName, own: HostOrder, present: Collection[HostName], stored: Ledger) -> None:
        """`present` are the hosts of the fleet, and `stored` has the hosts whose order the store has, at any time."""
        self._me, self._present, self._stored = me, present, stored
        self._orders = {} if own == NO_ORDER else {me: own}
        self._outdated: set[HostName] = set()
        """Hosts for which the store has an older order: somebody who did not hear of the later one wrote it again."""

    def put(self, host: HostName, order: HostOrder) -> None:
        """Nobody removes an order: one that the store has lost still holds, and so does one that is later."""
        if order.is_older_than(self.of(host)):
            self._outdated.add(host)
            return
        self._outdated.discard(host)
        self._orders.pop(host, None)  # so that the oldest are the first
        self._orders[host] = order
        if len(self._orders) > MOST_KNOWN:
            revoked = (each for each, known in self._orders.items() if not known.is_given)
            if oldest := next(revoked, None):
                del self._orders[oldest]

    def of(self, host: HostName) -> HostOrder:
        return self._orders.get(host, NO_ORDER)

    def awaited(self) -> list[HostName]:
        """Absent hosts that have orders."""
        return [host for host, order in self._orders.items() if order.is_given and host not in self._present]

    def lost(self) -> Iterator[tuple[HostName, HostOrder]]:
        """Orders that this host writes again: those of which the store has an older one, and of those that it has lost
        this host's own and some of absent hosts'."""
        for host, order in self._orders.items():
            if host in self._outdated or (host not in self._stored and self._writes_for(host)):
                yield host, order

    def _writes_for(self, host: HostName) -> bool:
        """A host that is present writes its own; one of the others writes those of an absent host."""
        return host == self._me or (host not in self._present and owner(host, self._present) == self._me)
