"""Which host serves a request: hotseat's placement, and the policies it is compared with."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol, TypeAlias

from hotseat.fleet.placement import Nowhere, Serve, place
from hotseat.identifiers import ClientId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.fleet_simulation.host import Host
    from bench.fleet_simulation.workload import Ask, Model

    from hotseat.fleet.placement import Decision
    from hotseat.fleet.roster import Roster
    from hotseat.identifiers import Instant

NOBODY = ClientId("")


class Policy(Protocol):
    is_fleet: bool
    """Whether it reads host records and makes claims."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision: ...


class Placement:
    """Production code."""

    is_fleet = True

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        return place(ask.model.name, ask.client, roster, now)


class WithoutAffinity:
    """The same for clients without identity: the ready replica with the least load per slot."""

    is_fleet = True

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        return place(ask.model.name, NOBODY, roster, now)


class FittingHosts:
    """For policies that only know which hosts are up and which fit a model at all."""

    is_fleet = False

    def __init__(self, hosts: Sequence[Host], seed: int) -> None:
        self._hosts, self._rng = hosts, Random(seed)
        self._fitting: dict[tuple[int, str], list[Host]] = {}

    def fitting(self, model: Model) -> list[Host]:
        kind = (model.gib, model.site)
        if kind not in self._fitting:
            self._fitting[kind] = [
                host for host in self._hosts if host.machine.gib >= model.gib and model.site in ("", host.machine.site)
            ]
        return self._fitting[kind]


class AtRandom(FittingHosts):
    """A load balancer in front of hosts that do not know each other."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        hosts = self.fitting(ask.model)
        living = [host for host in self._rng.sample(hosts, min(3, len(hosts))) if host.is_up]
        return Serve(living[0].machine.name, "chance") if living else Nowhere("nobody lives")


class LeastLoaded(FittingHosts):
    """A load balancer that counts connections exactly."""

    def choose(self, ask: Ask, roster: Roster, now: Instant) -> Decision:
        living = [host for host in self.fitting(ask.model) if host.is_up]
        if not living:
            return Nowhere("nobody lives")
        fewest = min(len(host.requests) for host in living)
        best = self._rng.choice([host for host in living if len(host.requests) == fewest])
        return Serve(best.machine.name, "fewest connections")


Maker: TypeAlias = "Callable[[Sequence[Host], int], Policy]"

POLICIES: dict[str, Maker] = {
    "hotseat": lambda hosts, seed: Placement(),
    "without affinity": lambda hosts, seed: WithoutAffinity(),
    "least connections": LeastLoaded,
    "random": AtRandom,
}
