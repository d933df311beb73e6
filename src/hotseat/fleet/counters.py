"""Counters of requests sent to other hosts, and of load decisions that hosts had to agree on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hotseat.fleet.view import Agreement

if TYPE_CHECKING:
    from collections.abc import Collection

    from hotseat.fleet.claims import Agreed
    from hotseat.identifiers import HostName


class FleetCounters:
    __slots__ = ("agreements", "passed_on", "turned_away")

    def __init__(self) -> None:
        self.passed_on: Counter[HostName] = Counter()
        self.turned_away: Counter[HostName] = Counter()
        self.agreements: Counter[Agreement] = Counter()

    def agreed(self, agreed: Agreed, me: HostName) -> None:
        self.agreements[_who_decided(agreed, me)] += 1

    def keep_only(self, hosts: Collection[HostName]) -> None:
        """Drop the counters of all other hosts."""
        for counted in (self.passed_on, self.turned_away):
            for gone in [host for host in counted if host not in hosts]:
                del counted[gone]


def _who_decided(agreed: Agreed, me: HostName) -> Agreement:
    if agreed.revision is None:
        return Agreement.ALONE
    return Agreement.MADE if agreed.claim.by == me else Agreement.LOST
