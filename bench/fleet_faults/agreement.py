"""Judges the end of a run: after the last fault, a lease and a load, all hosts know the same, and it is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.fleet_faults.launcher import LOAD_S

from hotseat.fleet.store import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet_faults.host import SimulatedHost

    from hotseat.identifiers import Seconds

SETTLE_S: Seconds = LEASE_S + LOAD_S


class Agreement:
    def __init__(self, awake: Sequence[SimulatedHost], violated: Callable[[str, str], None]) -> None:
        self._awake, self._violated = awake, violated

    def check(self) -> None:
        living = {host.name for host in self._awake}
        for host in self._awake:
            known = {member.name for member in host.node.roster.hosts}
            if known != living:
                self._violated("hosts", f"{host.name} knows {sorted(known)}, alive are {sorted(living)}")
            self._check_catalog(host)
        self._check_replicas()

    def _check_catalog(self, host: SimulatedHost) -> None:
        """What no living host configures does not count."""
        specs = [spec for each in self._awake for spec in each.dispatcher.catalog.models.values()]
        kept = {spec.name: spec.replicas.least for spec in specs if spec.replicas.least}
        if (known := host.node.roster.catalog.kept) != kept:
            self._violated("dead catalog", f"{host.name} keeps {known}, configured is {kept}")
        aliases = {(alias, spec.name) for spec in specs for alias in spec.aliases}
        for alias in {alias for alias, _ in aliases}:
            found = host.node.roster.names.resolve(alias)
            if (alias, found) not in aliases:
                self._violated("dead catalog", f"{host.name} resolves {alias} as {found}")

    def _check_replicas(self) -> None:
        for name in {name for host in self._awake for name in host.dispatcher.catalog.models}:
            specs = [host.dispatcher.catalog.models.get(name) for host in self._awake]
            least = max(spec.replicas.least for spec in specs if spec)
            ready = [host.name for host in self._awake if host.has_ready(name)]
            if len(ready) > 1:
                self._violated("replicas", f"{name} is ready on {ready}, although one host is enough")
            free = [host for host in self._awake if not host.orders]
            if len(ready) < least and free:
                self._violated("replicas", f"{name} is ready nowhere, although {least} is required")
