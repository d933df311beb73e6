"""PURE: hosts whose record has ended: unconfirmed while the store was just interrupted, else absent.

A lease cannot be renewed while the store is away, and a store that lost its state has no records at all. So for one
lease after an interruption a missing record means nothing: its host is kept as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotseat.identifiers import HostName, Instant, Seconds

KNOWN_S: Seconds = 600.0
"""A host that has left is expected back for this long: the time of a restart or an upgrade of its machine."""


class Left(NamedTuple):
    catalog: str
    until: Instant


class Absences:
    def __init__(self) -> None:
        self._confirmed_by: Instant = float("-inf")
        self._unconfirmed: dict[HostName, None] = {}
        self._left: dict[HostName, Left] = {}

    def interrupted(self, now: Instant) -> None:
        """The state is sent again: hosts have one lease to renew theirs."""
        self._confirmed_by = now + LEASE_S

    def is_unconfirmed(self, host: HostName, now: Instant) -> bool:
        """Its record is missing: may the interruption be the reason?"""
        if now >= self._confirmed_by:
            return False
        self._unconfirmed[host] = None
        return True

    def present(self, host: HostName) -> None:
        self._unconfirmed.pop(host, None)
        self._left.pop(host, None)

    def left(self, host: HostName, catalog: str, now: Instant) -> None:
        self._left[host] = Left(catalog, now + KNOWN_S)

    def expects(self, host: HostName) -> bool:
        return host in self._left

    def overdue(self, now: Instant) -> list[HostName]:
        """Those that have not renewed their lease in time, each once."""
        if not self._unconfirmed or now < self._confirmed_by:
            return []
        overdue, self._unconfirmed = [*self._unconfirmed], {}
        return overdue

    def expired(self, now: Instant) -> list[str]:
        """The catalogs of hosts that are no longer expected back, each once."""
        gone = [host for host, left in self._left.items() if left.until <= now]
        return [self._left.pop(host).catalog for host in gone]

    def catalogs(self) -> Iterator[str]:
        """Of hosts that are expected back."""
        return (left.catalog for left in self._left.values())
